package backend

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

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
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return fmt.Errorf("%w: its port is not a number from 1 to 65535; %s", ErrURL, encodeHint)
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
