package backend

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// A Target says how to reach one Redis server. However it is printed or marshalled, the password is left out.
type Target struct {
	Network  string // "tcp" or "unix"
	Addr     string // host:port, or the path of the socket
	Username string // empty means Redis's user "default"
	Password string
	DB       int
	TLS      *tls.Config // nil means no TLS
}

// String returns the target as a URL without its secrets.
func (t Target) String() string {
	u := url.URL{Scheme: "redis", Host: t.Addr, Path: "/" + strconv.Itoa(t.DB)}
	switch {
	case t.Network == "unix":
		u = url.URL{Scheme: "unix", Path: t.Addr, RawQuery: "db=" + strconv.Itoa(t.DB)}
	case t.TLS != nil:
		u.Scheme = "rediss"
	}
	if t.DB == 0 {
		u.RawQuery = ""
		if t.Network != "unix" {
			u.Path = ""
		}
	}
	return u.Scheme + "://" + t.userinfo() + u.String()[len(u.Scheme+"://"):]
}

// WithoutPassword returns the target as a URL that can be typed again, with the user's name but without the password. A
// name that stands alone is left out, because it may be a password.
func (t Target) WithoutPassword() string {
	anonymous := t
	anonymous.Username, anonymous.Password = "", ""
	shown := anonymous.String()
	if t.Username == "" || t.Password == "" {
		return shown
	}
	scheme, rest, _ := strings.Cut(shown, "://")
	return scheme + "://" + url.User(t.Username).String() + "@" + rest
}

// userinfo hides a user name that stands alone, because redis://PASSWORD@host is a common slip.
func (t Target) userinfo() string {
	switch {
	case t.Username == "" && t.Password == "":
		return ""
	case t.Password == "":
		return "***@"
	}
	return url.User(t.Username).String() + ":***@"
}

// Format prints String for every verb, so that %+v and %#v do not show the password either.
func (t Target) Format(f fmt.State, verb rune) {
	if verb == 'q' {
		fmt.Fprintf(f, "%q", t.String())
		return
	}
	fmt.Fprint(f, t.String())
}

// MarshalText returns String, so that JSON and structured logs do not show the password either.
func (t Target) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// ParseURL reads where a server is from one of
//
//	redis://[user[:password]@]host[:port][/db]
//	rediss://[user[:password]@]host[:port][/db][?skip_verify=true]     (TLS)
//	unix://[user[:password]@]/path/to/redis.sock[?db=N]
//
// The port is 6379 and the database 0 unless said otherwise. go-redis's other query parameters (max_retries,
// pool_size, ...) are refused, because they would undo what [Dial] needs to measure truthfully.
//
// Every error wraps [ErrURL] and says what is wrong without repeating any part of the URL: where a password was
// not percent-encoded, any part of it may hold a piece of the password.
func ParseURL(raw string) (Target, error) {
	u, err := url.Parse(raw)
	if err != nil { // not wrapped: url.Error quotes the URL
		return Target{}, fmt.Errorf("%w: it cannot be parsed; %s", ErrURL, encodeHint)
	}
	if u.Fragment != "" || strings.Contains(u.EscapedPath()+u.RawQuery, "@") {
		return Target{}, fmt.Errorf("%w: it has a '#', or an '@' after the host; %s", ErrURL, encodeHint)
	}
	t := Target{}
	if u.User != nil {
		t.Username = u.User.Username()
		t.Password, _ = u.User.Password()
	}
	switch u.Scheme {
	case "redis", "rediss":
		err = t.setTCP(u)
	case "unix":
		err = t.setUnix(u)
	default:
		err = fmt.Errorf("%w: it must start with redis://, rediss:// (TLS) or unix://", ErrURL)
	}
	if err == nil {
		err = t.setQuery(u.Query())
	}
	if err != nil {
		return Target{}, err
	}
	return t, nil
}

const encodeHint = "special characters in a user name or password must be percent-encoded, for example %40 for '@'"

func (t *Target) setTCP(u *url.URL) error {
	if u.Opaque != "" || u.Host == "" {
		return fmt.Errorf("%w: it names no host; expected %s://host:port", ErrURL, u.Scheme)
	}
	host := cmp.Or(u.Hostname(), "localhost")
	port := cmp.Or(u.Port(), "6379")
	if err := checkPort(port); err != nil {
		return err
	}
	t.Network, t.Addr = "tcp", net.JoinHostPort(host, port)
	if u.Scheme == "rediss" {
		t.TLS = &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	}
	if db := strings.Trim(u.Path, "/"); db != "" {
		return t.setDB(db)
	}
	return nil
}

func checkPort(port string) error {
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%w: its port is not a number from 1 to 65535; %s", ErrURL, encodeHint)
	}
	return nil
}

func (t *Target) setUnix(u *url.URL) error {
	if u.Opaque != "" || u.Host != "" || strings.Trim(u.Path, "/") == "" {
		return fmt.Errorf("%w: a unix URL needs an absolute path, for example unix:///run/redis.sock", ErrURL)
	}
	t.Network, t.Addr = "unix", u.Path
	return nil
}

func (t *Target) setDB(db string) error {
	n, err := strconv.Atoi(db)
	if err != nil || n < 0 {
		return fmt.Errorf("%w: its database is not a number, as in redis://host:6379/2", ErrURL)
	}
	t.DB = n
	return nil
}

func (t *Target) setQuery(q url.Values) error {
	for name, values := range q {
		value := values[len(values)-1]
		switch {
		case name == "db":
			if err := t.setDB(value); err != nil {
				return err
			}
		case name == "skip_verify" && t.TLS != nil:
			skip, err := strconv.ParseBool(value)
			if err != nil {
				return fmt.Errorf("%w: skip_verify must be true or false", ErrURL)
			}
			t.TLS.InsecureSkipVerify = skip
		default:
			return fmt.Errorf("%w: %s cannot be set here: marketsim needs its own connection options "+
				"(only db, and skip_verify with rediss://, are known)", ErrURL, optionName(name))
		}
	}
	return nil
}

// optionName repeats a parameter's name only if it is surely one, and not a piece of somebody's password.
func optionName(name string) string {
	switch name {
	case "protocol", "client_name", "max_retries", "min_retry_backoff", "max_retry_backoff", "dial_timeout",
		"read_timeout", "write_timeout", "pool_fifo", "pool_size", "pool_timeout", "min_idle_conns",
		"max_idle_conns", "max_active_conns", "conn_max_idle_time", "conn_max_lifetime", "skip_verify":
		return "the parameter " + name
	}
	return "a query parameter"
}

// TLSFiles names what a rediss:// connection needs beyond its URL. The zero value adds nothing.
type TLSFiles struct {
	CA         string // PEM file of the authorities to trust, instead of the system's
	Cert, Key  string // PEM files of a client certificate; both or neither
	ServerName string // the name in the server's certificate, where it is not the URL's host
}

// Apply adds the files to the target's TLS settings. The error names the file it could not use; it wraps
// [ErrURL] if the target does not use TLS at all, or if only one of Cert and Key is given.
func (f TLSFiles) Apply(t *Target) error {
	switch {
	case f == TLSFiles{}:
		return nil
	case t.TLS == nil:
		return fmt.Errorf("%w: TLS files need a rediss:// URL", ErrURL)
	case (f.Cert == "") != (f.Key == ""):
		return fmt.Errorf("%w: a client certificate and its key must be given together", ErrURL)
	}
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
