package backend

import (
	"crypto/tls"
	"fmt"
	"net/url"
	"strconv"
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
