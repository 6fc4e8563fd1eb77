package backend

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Preflight checks that a market can live on the server at the other end: Redis 6.2 or newer (or Valkey), done
// with loading, and not a replica that refuses writes. The error wraps [ErrUnsuitable] or [ErrLoading], or says
// which command the user may not run. Miniredis, which has nothing to check, passes if c was made by the
// Dial of its [Server].
func Preflight(ctx context.Context, c *Conn) error {
	if c.name == NameEmbedded {
		return nil
	}
	server, err := c.InfoFields(ctx, "server")
	if err != nil {
		return err
	}
	if v := server["redis_version"]; !atLeast(v, 6, 2) {
		return fmt.Errorf("%w: it is Redis %s, and marketsim needs 6.2 or newer", ErrUnsuitable, v)
	}
	persistence, err := c.InfoFields(ctx, "persistence")
	if err != nil {
		return err
	}
	if persistence["loading"] == "1" {
		return fmt.Errorf("%w; try again when it is done", ErrLoading)
	}
	replication, err := c.InfoFields(ctx, "replication")
	if err != nil {
		return err
	}
	if replication["role"] == "slave" && replication["slave_read_only"] != "0" {
		return fmt.Errorf("%w: it is a read-only replica; connect to its master at %s:%s",
			ErrUnsuitable, replication["master_host"], replication["master_port"])
	}
	return nil
}

// atLeast reports whether a version such as "7.0.15" is major.minor or newer. Valkey reports the version of Redis
// it is compatible with. A version that cannot be read is too old: every server this is about reports one.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	gotMajor, err1 := strconv.Atoi(parts[0])
	gotMinor, err2 := strconv.Atoi(parts[1])
	return err1 == nil && err2 == nil && (gotMajor > major || gotMajor == major && gotMinor >= minor)
}
