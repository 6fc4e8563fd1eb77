package backend

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Denied reports whether the server refused a command because the user's ACL forbids it, and which command:
// "zrandmember", or "config|get" for a subcommand. The command is empty where the ACL forbids the keys or
// channels instead, and where a script was stopped by a server that does not say at which command.
func Denied(err error) (command string, ok bool) {
	if !answered(err, "NOPERM") {
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

// Explain adds the next step to a server's refusal that a user can mend: a missing permission, a replica, a full
// memory, a failing disk, a server that still loads. It returns any other error, and nil, as it is. The
// result wraps err.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if command, ok := Denied(err); ok {
		if command == "" {
			return fmt.Errorf("%w; grant its keys and channels with: ACL SETUSER <user> '~marketsim:*' '&marketsim:*' "+
				"(or the prefix in use)", err)
		}
		return fmt.Errorf("%w; grant it with: ACL SETUSER <user> +%s", err, command)
	}
	for _, advice := range []struct{ code, step string }{
		{"READONLY", "this is a replica: connect to its master"},
		{"OOM", "raise maxmemory or load fewer items"},
		{"MISCONF", "the server cannot save to disk: mend that, or turn saving off with: CONFIG SET save ''"},
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

// answered reports whether the server refused with an error code, at once or when it discarded a transaction for it.
func answered(err error, code string) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := reply.Error()
	return strings.HasPrefix(text, code+" ") || strings.Contains(text, "because of: "+code+" ")
}
