package backend

import (
	"fmt"
	"regexp"

	"github.com/redis/go-redis/v9"
)

// Denied reports whether the server refused a command because the user's ACL forbids it, and which command:
// "zrandmember", or "config|get" for a subcommand. The command is empty where the ACL forbids the keys or
// channels instead, and where a script was stopped by a server that does not say at which command.
func Denied(err error) (command string, ok bool) {
	if err == nil || !redis.IsPermissionError(err) {
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
	switch {
	case redis.IsReadOnlyError(err):
		return fmt.Errorf("%w; this is a replica: connect to its master", err)
	case redis.IsOOMError(err):
		return fmt.Errorf("%w; raise maxmemory or load fewer items", err)
	case redis.HasErrorPrefix(err, "MISCONF"):
		return fmt.Errorf("%w; the server cannot save to disk: mend that, or turn saving off with: CONFIG SET save ''", err)
	case redis.IsLoadingError(err):
		return fmt.Errorf("%w; try again when it is done", err)
	}
	return err
}
