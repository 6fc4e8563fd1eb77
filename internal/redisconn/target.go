package redisconn

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Target says how to reach one Redis server. However it is printed or
// marshalled, the password is left out.
type Target struct {
	Network  string // "tcp" or "unix"
	Addr     string // host:port, or the path of the socket
	Username string // empty means Redis's user "default"
	Password string
	DB       int
	TLS      *tls.Config // nil means no TLS
}

// String returns the target as a URL without its secrets. A user's name alone is
// one (redis://PASSWORD@host).
func (t Target) String() string {
	switch {
	case t.Password != "":
		return t.url(url.UserPassword(t.Username, hidden))
	case t.Username != "":
		return t.url(url.User(hidden))
	}
	return t.url(nil)
}

// Through is the same server reached at another address, host:port, such as
// that of a proxy before it.
func (t Target) Through(addr string) Target {
	t.Network = "tcp"
	t.Addr = addr
	return t
}

const hidden = "xxxxx" // as net/url has it

// WithoutPassword returns the target as a URL that can be typed again, with the user's
// name, unless it stands alone.
func (t Target) WithoutPassword() string {
	if t.Username == "" || t.Password == "" {
		return t.url(nil)
	}
	return t.url(url.User(t.Username))
}

func (t Target) url(user *url.Userinfo) string {
	u := url.URL{Scheme: "redis", User: user, Host: t.Addr}
	if t.TLS != nil {
		u.Scheme = "rediss"
	}
	if t.Network == "unix" {
		u.Scheme = "unix"
		u.Host = ""
		u.Path = t.Addr
		u.RawPath = strings.ReplaceAll(u.EscapedPath(), "@", "%40") // as ParseURL takes it
	}

	query := url.Values{}
	if t.DB != 0 {
		query.Set("db", strconv.Itoa(t.DB))
	}
	if t.TLS != nil && t.TLS.InsecureSkipVerify {
		query.Set("skip_verify", "true")
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// Format prints String for every verb, so that %+v and %#v do not show the password either.
func (t Target) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), t.String())
}

// MarshalText returns String, so that JSON and structured logs do not show the
// password either.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// ParseURL reads where a server is from one of
//
//	redis://[user[:password]@]host[:port][/db]
//	rediss://[user[:password]@]host[:port][/db][?skip_verify=true]     (TLS)
//	unix://[user[:password]@]/path/to/redis.sock[?db=N]
//
// The port is 6379 and the database 0 unless said otherwise. go-redis's other query
// parameters (max_retries, ...) are refused, because they would undo what [Dialer.Dial] needs to
// measure truthfully. Every error wraps [ErrURL] and repeats no part of the URL, which
// may hold a piece of a password that was not percent-encoded. Only an address that stands
// alone, as in "localhost:6379", is repeated, as the URL to type.
func ParseURL(raw string) (Target, error) {
	if !startsWithScheme.MatchString(raw) {
		return Target{}, fmt.Errorf("%w: %s", ErrURL, urlInPlaceOf(raw))
	}

	u, err := url.Parse(raw)
	if err != nil && !strings.Contains(raw, "@") {
		return Target{}, fmt.Errorf("%w: it cannot be parsed: what follows the host's ':' must be a port from 1 to 65535; %s",
			ErrURL, encodeHint)
	}
	// url.Error quotes the URL
	if err != nil || u.Fragment != "" || strings.Contains(u.EscapedPath()+u.RawQuery, "@") {
		return Target{}, fmt.Errorf("%w: it cannot be parsed, or has a '#', or an '@' after the host; %s",
			ErrURL, encodeHint)
	}

	if !slices.Contains([]string{"redis", "rediss", "unix"}, u.Scheme) {
		return Target{}, fmt.Errorf("%w: it must start with redis://, rediss:// (TLS) or unix://", ErrURL)
	}
	for name := range u.Query() {
		if name != "db" && name != "skip_verify" {
			return Target{}, fmt.Errorf("%w: it has a query parameter that cannot be set here: marketsim needs its own "+
				"connection options (only db, and skip_verify with rediss://, are known)", ErrURL)
		}
	}

	o, err := redis.ParseURL(raw)
	switch {
	case !validPort(u.Port()):
		return Target{}, fmt.Errorf("%w: its port must be from 1 to 65535", ErrURL)
	case err != nil || o.DB < 0 || (u.Host == "") != (u.Scheme == "unix"):
		// The text names ':' and '@' apart, because cmd/marketsim hides what looks like
		// USER:PASSWORD@.
		return Target{}, fmt.Errorf("%w: it is not of the form redis://host[:port][/db], rediss:// the same "+
			"[?skip_verify=true], or unix:///path/to/redis.sock[?db=N], with user, ':', password and '@' before the host "+
			"or path if it has them; %s", ErrURL, encodeHint)
	}
	return Target{
		Network:  o.Network,
		Addr:     o.Addr,
		Username: o.Username,
		Password: o.Password,
		DB:       o.DB,
		TLS:      o.TLSConfig,
	}, nil
}

var (
	startsWithScheme = regexp.MustCompile(`^(?i)[a-z][a-z0-9+.-]*://|^rediss?:|^unix:`)

	// An address with nothing that could be a password: a host with a port, and perhaps a
	// database, or an IP address. A word alone may be a password in the wrong place.
	bareAddress = regexp.MustCompile(`^(?:[A-Za-z0-9._-]*:[0-9]{1,5}|(?:localhost|[0-9]+(?:\.[0-9]+){3}|` +
		`\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?)(?:/[0-9]*)?$`)
	bareWord   = regexp.MustCompile(`^[A-Za-z0-9_-]*[A-Za-z][A-Za-z0-9._-]*(?:/[0-9]*)?$`)
	socketPath = regexp.MustCompile(`^/[^@?#]*\.sock(et)?$`)
)

// urlInPlaceOf says which URL to type in place of a text that is none. It repeats the text
// only where nothing in it can be a password.
func urlInPlaceOf(raw string) string {
	const starts = "it must start with redis://, rediss:// (TLS) or unix://"
	address := strings.TrimPrefix(raw, "//")
	ip, noIP := netip.ParseAddr(address)

	switch {
	case raw == "":
		return starts
	case strings.Contains(raw, "@"):
		return starts + ": type redis:// in front of it; " + encodeHint
	case socketPath.MatchString(raw):
		return starts + ": type unix://" + raw
	case noIP == nil && ip.Is6() && ip.Zone() == "":
		return starts + ": type redis://[" + address + "]:6379"
	case bareAddress.MatchString(address) && address[0] == ':':
		return starts + ": type redis://localhost" + strings.TrimSuffix(address, "/")
	case bareAddress.MatchString(address):
		return starts + ": type redis://" + strings.TrimSuffix(address, "/")
	case bareWord.MatchString(address):
		return starts + ": type redis:// in front of it, if it is your server's name"
	}
	return starts + ": type redis://HOST:PORT, with a number as PORT"
}

const encodeHint = "special characters in a user name or password must be percent-encoded, " +
	"for example %40 for '@'"

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// TLSFiles names what a rediss:// connection needs beyond its URL. The zero
// value adds nothing.
type TLSFiles struct {
	CA         string // PEM file of the authorities to trust, instead of the system's
	Cert, Key  string // PEM files of a client certificate; both or neither
	ServerName string // the name in the server's certificate, where it is not the URL's host
}

// Apply adds the files to the target's TLS settings. The error wraps [ErrURL]
// if these do not go together.
func (f TLSFiles) Apply(t *Target) error {
	switch {
	case f == TLSFiles{}:
		return nil
	case t.TLS == nil:
		return fmt.Errorf("%w: TLS files need a rediss:// URL", ErrURL)
	case (f.Cert == "") != (f.Key == ""):
		return fmt.Errorf("%w: a client certificate and its key must be given together", ErrURL)
	}

	// A copy, so that a target keeps its own settings if a file cannot be read.
	config := t.TLS.Clone()
	if f.ServerName != "" {
		config.ServerName = f.ServerName
	}

	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return fmt.Errorf("reading the TLS authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("reading the TLS authorities: %s holds no PEM certificate", f.CA)
		}
	}

	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return fmt.Errorf("reading the client certificate %s with key %s: %w", f.Cert, f.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}

	t.TLS = config
	return nil
}
