package backend

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"syscall"

	"github.com/redis/go-redis/v9"
)

// handshakeError marks an error of the TLS handshake, which by itself may be a mere EOF or time-out.
type handshakeError struct{ error }

func (e handshakeError) Unwrap() error { return e.error }

// explainDial says what went wrong and what to do about it. A caller's own cancellation needs no advice.
func explainDial(ctx context.Context, t Target, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("connecting to Redis at %s: %w", t.Addr, cause)
	}
	if t.TLS != nil {
		if explained := explainTLS(t, err); explained != nil {
			return explained
		}
	}
	var reply redis.Error
	switch {
	case redis.IsAuthError(err), redis.HasErrorPrefix(err, "AUTH "), redis.HasErrorPrefix(err, "invalid password"):
		return explainAuth(t, err)
	case redis.IsLoadingError(err):
		return fmt.Errorf("%w at %s: %w; try again when it is done", ErrLoading, t.Addr, err)
	case redis.IsMaxClientsError(err):
		return fmt.Errorf("%w at %s: %w; raise its maxclients or use fewer workers", ErrUnreachable, t.Addr, err)
	case errors.As(err, &reply):
		return fmt.Errorf("the server at %s refused the connection: %w", t.Addr, Explain(err))
	}
	return fmt.Errorf("%w at %s: %w; %s", ErrUnreachable, t.Addr, err, reachHint(t, err))
}

func explainAuth(t Target, err error) error {
	who := "user " + t.Username
	if t.Username == "" {
		who = "the default user"
	}
	if t.Password == "" {
		return fmt.Errorf("%w at %s as %s without a password: %w; give one in REDIS_PASSWORD, with --password-file "+
			"or in the URL", ErrAuth, t.Addr, who, err)
	}
	return fmt.Errorf("%w at %s as %s: %w; check the user in the URL and the password in REDIS_PASSWORD, "+
		"--password-file or the URL", ErrAuth, t.Addr, who, err)
}

// explainTLS returns nil for an error that has nothing to do with TLS.
func explainTLS(t Target, err error) error {
	var (
		plain     tls.RecordHeaderError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		handshake handshakeError
	)
	hint := ""
	switch {
	case errors.As(err, &plain):
		hint = "the server does not speak TLS on this port: use redis:// instead of rediss://"
	case errors.As(err, &authority):
		hint = "its certificate is signed by an authority this machine does not know: give the authority's file with --cacert"
	case errors.As(err, &name):
		hint = "its certificate is for another name: connect by that name or give it with --sni"
	case errors.As(err, &invalid):
		hint = "its certificate is not valid"
	case errors.As(err, &handshake):
		hint = "is this a TLS port? if not, use redis:// instead of rediss://; if it is, it may want a client certificate " +
			"(--cert and --key)"
	case hungUp(err): // after the handshake; whether its alert or the end of the connection is seen first is a race
		hint = "it hung up after the handshake: it may want a client certificate (--cert and --key)"
	default:
		return nil
	}
	return fmt.Errorf("%w at %s: %w; %s", ErrTLS, t.Addr, err, hint)
}

// hungUp reports whether the server ended a connection it had accepted.
func hungUp(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.As(err, &op) && op.Op == "remote error" // how crypto/tls reports an alert
}

// reachHint turns a network error into a question the user can answer.
func reachHint(t Target, err error) string {
	var (
		dns   *net.DNSError
		op    *net.OpError
		isNet net.Error
	)
	switch {
	case errors.As(err, &dns):
		return "is the host name right?"
	case errors.Is(err, syscall.EMFILE):
		return "raise this process's limit of open files (ulimit -n), or use fewer workers"
	case t.Network == "unix" && errors.Is(err, fs.ErrNotExist):
		return "is it running, and is this the path of its unixsocket?"
	case t.Network == "unix" && errors.Is(err, fs.ErrPermission):
		return "may this user open the socket? (see unixsocketperm)"
	case errors.As(err, &op) && op.Op == "dial":
		return "is it running, and is this its address?"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &isNet) && isNet.Timeout():
		return "something accepted the connection but did not answer: is it Redis, and is it not stopped?"
	case t.TLS == nil && t.Network != "unix":
		return "it hung up before it answered: are its maxclients in use? does it expect TLS? then use rediss:// " +
			"instead of redis://"
	}
	return "it hung up before it answered: are its maxclients in use?"
}
