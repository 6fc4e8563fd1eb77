package redisconn

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// The errors a caller can act on. They are wrapped, beside their cause: test
// with errors.Is.
var (
	// ErrURL is returned by ParseURL, and by TLSFiles.Apply for files that do not fit
	// the URL. It is the user's mistake, not the environment's, and its text never
	// holds any part of the URL.
	ErrURL = errors.New("invalid Redis URL")

	// Of Dial. ErrUnreachable: nothing that speaks Redis answered in time.
	// ErrTLS: one side speaks TLS and the other does not, or they do not trust
	// each other's certificates.
	ErrUnreachable = errors.New("cannot reach Redis")
	ErrAuth        = errors.New("cannot log in to Redis")
	ErrTLS         = errors.New("cannot agree on TLS with Redis")

	// Of OpenCluster, and of backend.Preflight: too old, a replica, incomplete, or still
	// loading.
	ErrUnsuitable = errors.New("this server cannot be used")
)

// handshakeError marks an error of the TLS handshake, which by itself may be a
// mere EOF or time-out.
type handshakeError struct{ error }

func (e handshakeError) Unwrap() error { return e.error }

// explainDial says what went wrong and what to do about it. A caller's own
// cancellation needs no advice.
func explainDial(ctx context.Context, t Target, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("connecting to Redis at %s: %w", t.Addr, cause)
	}

	ofTLS := tlsHint(err)
	switch {
	case t.TLS != nil && ofTLS != "":
		return fmt.Errorf("%w at %s: %w; %s", ErrTLS, t.Addr, err, ofTLS)
	case redis.IsAuthError(err),
		redis.HasErrorPrefix(err, "AUTH "), redis.HasErrorPrefix(err, "invalid password"):
		return explainAuth(t, err)
	case redis.HasErrorPrefix(err, "SELECT is not allowed in cluster mode"):
		return fmt.Errorf("%w: %s is a node of a Redis Cluster, which has database 0 only: leave /%d out of its URL",
			ErrURL, t.Addr, t.DB)
	case redis.IsMaxClientsError(err):
		return fmt.Errorf("%w at %s: %w; raise its maxclients or use fewer workers",
			ErrUnreachable, t.Addr, err)
	case is[redis.Error](err):
		return fmt.Errorf("the server at %s refused the connection: %w", t.Addr, Explain(err))
	}
	return fmt.Errorf("%w at %s: %w; %s", ErrUnreachable, t.Addr, err, reachHint(t, err))
}

func explainAuth(t Target, err error) error {
	who := "user " + t.Username
	hint := "check the user in the URL and the password in REDIS_PASSWORD, --password-file or the URL"
	switch {
	case t.Password == "": // and the name may be a password, see Target.String
		who = "a user without a password"
		hint = "give one in REDIS_PASSWORD, with --password-file or as :PASSWORD@ in the URL"
	case t.Username == "":
		who = "the default user"
	}
	return fmt.Errorf("%w at %s as %s: %s (the server said: %w)", ErrAuth, t.Addr, who, hint, err)
}

func is[T error](err error) bool {
	_, ok := errors.AsType[T](err)
	return ok
}

// tlsHint says what to do about an error of a connection with TLS. It is empty if TLS has
// nothing to do with the error.
func tlsHint(err error) string {
	switch {
	case is[tls.RecordHeaderError](err):
		return "the server does not speak TLS on this port: use redis:// instead of rediss://"
	case is[x509.UnknownAuthorityError](err):
		return "its certificate is signed by an authority this machine does not know: give the authority's file " +
			"with --cacert"
	case is[x509.HostnameError](err):
		return "its certificate is for another name: connect by that name or give it with --sni"
	case is[x509.CertificateInvalidError](err):
		return "its certificate is not valid"
	case is[handshakeError](err): // it wraps those above, which say more
		return "is this a TLS port? if not, use redis:// instead of rediss://; if it is, it may want a client " +
			"certificate (--cert and --key)"
	case hungUp(err):
		// after the handshake; whether its alert or the end of the connection is
		// seen first is a race
		return "it hung up after the handshake: it may want a client certificate (--cert and --key)"
	}

	return ""
}

// hungUp reports whether the server ended a connection it had accepted.
func hungUp(err error) bool {
	op, _ := errors.AsType[*net.OpError](err)
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		op != nil && op.Op == "remote error" // how crypto/tls reports an alert
}

// ConnectionBroken reports whether err says that a connection broke or could not be made,
// and is nothing that a server answered.
func ConnectionBroken(err error) bool {
	return err != nil && !is[redis.Error](err) &&
		(hungUp(err) || is[*net.OpError](err) || errors.Is(err, ErrUnreachable))
}

// Unsent reports whether err, of a command or a pipeline, says that not a byte of it has
// left: there was no connection, or none became free in time, or its handshake failed.
// The server has then certainly not executed it. A connection of a [Dialer] knows, but for
// those with pipelining; of another client's errors the obvious ones are recognized.
func Unsent(err error) bool {
	op, _ := errors.AsType[*net.OpError](err)
	return is[unsent](err) || op != nil && op.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout) ||
		errors.Is(err, redis.ErrClosed)
}

// reachHint turns a network error into a question the user can answer.
func reachHint(t Target, err error) string {
	op, _ := errors.AsType[*net.OpError](err)
	late, _ := errors.AsType[net.Error](err)

	// An error of dialling wraps the first two, which say more.
	switch {
	case is[*net.DNSError](err):
		return "is the host name right?"
	case errors.Is(err, syscall.EMFILE):
		return "raise this process's limit of open files (ulimit -n), or use fewer workers"
	case op != nil && op.Op == "dial" && t.Network == "unix":
		return "is it running, is this the path of its unixsocket, and may this user open it (unixsocketperm)?"
	case op != nil && op.Op == "dial":
		return "is it running, and is this its address?"
	case errors.Is(err, context.DeadlineExceeded), late != nil && late.Timeout():
		return "something accepted the connection but did not answer: is it Redis, and is it not stopped?"
	case !hungUp(err) && !strings.Contains(err.Error(), `\x15\x03`):
		// which is an alert of TLS, as go-redis quotes it
		return "what answers there does not speak Redis: is this its address?"
	}
	return "it hung up before it answered: are its maxclients in use? does it expect TLS? " +
		"then use rediss:// instead of redis://"
}

// Denied reports whether the server refused a command because the user's ACL forbids it,
// and which command: "zrandmember", or "config|get" for a subcommand. The command is
// empty where the ACL forbids the keys or channels instead, and where a script was
// stopped by a server that does not say at which command.
func Denied(err error) (command string, ok bool) {
	// Redis 7.0, in a script: ERR The user executing the script can't publish to the
	// channel mentioned in the command
	reply, _ := errors.AsType[redis.Error](err)
	inScript := reply != nil && strings.Contains(reply.Error(), "The user executing the script can't ")
	if !answered(err, "NOPERM") && !inScript {
		return "", false
	}
	// Redis 6.2: this user has no permissions to run the 'get' command or its subcommand
	// Redis 7:   User bob has no permissions to run the 'config|get' command
	if found := deniedCommand.FindStringSubmatch(err.Error()); found != nil {
		return found[1], true
	}
	return "", true
}

var deniedCommand = regexp.MustCompile(`permissions to run the '([^']+)' command`)

// Explain adds the next step to a server's refusal that a user can do something about,
// and wraps it: a missing permission, a replica, a full memory, a failing disk, a server
// that still loads. It returns other errors as they are. A step stands behind the whole text of
// the error: cmd/marketsim tells by that whether it is there already, and takes it away.
func Explain(err error) error {
	if command, ok := Denied(err); ok {
		// Without the name of a command it was a key or a channel, or some command of a script.
		switch {
		case command == "" && strings.Contains(err.Error(), "can't run this command"):
			return fmt.Errorf("%w; this server does not say which command of the script it is: "+
				"grant all that it may be with: "+
				"ACL SETUSER <user> +@hash +@set +@sortedset +@string", err)
		case command == "":
			return fmt.Errorf("%w; grant its keys and channels with: "+
				"ACL SETUSER <user> '~marketsim:*' '&marketsim:*' (or the prefix in use)", err)
		}
		return fmt.Errorf("%w; grant it with: ACL SETUSER <user> +%s", err, command)
	}

	for _, advice := range []struct{ code, step string }{
		{"READONLY", "this is a replica: connect to its master"},
		{"OOM", "raise maxmemory or load fewer items"},
		{"MISCONF", "the server cannot save to disk: repair that, or turn saving off with: CONFIG SET save ''"},
		{"LOADING", "try again when it is done"},
	} {
		if answered(err, advice.code) {
			return fmt.Errorf("%w; %s", err, advice.step)
		}
	}

	if !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrTLS) && hungUp(err) {
		return fmt.Errorf("the connection to Redis was lost: %w", err)
	}
	return err
}

// answered reports whether the server refused with an error code, at once or when it
// discarded a transaction for it.
func answered(err error, code string) bool {
	reply, _ := errors.AsType[redis.Error](err)
	if reply == nil {
		return false
	}
	text := reply.Error()
	return strings.HasPrefix(text, code+" ") || strings.Contains(text, "because of: "+code+" ")
}

// OfContext returns err, marked as the context's error if ctx is over: a
// command that ctx's deadline interrupts returns "i/o timeout", perhaps before
// the timer of ctx has fired.
func OfContext(ctx context.Context, err error) error {
	over := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && over == nil && !time.Now().Before(deadline) {
		over = context.DeadlineExceeded
	}
	if err == nil || over == nil || errors.Is(err, over) {
		return err
	}
	return fmt.Errorf("%w: %w", over, err)
}
