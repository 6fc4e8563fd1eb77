package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// OnFreePorts calls start with n different ports of 127.0.0.1 on which nobody listens,
// from below the range in which the system gives ports to outgoing connections: one of
// these could take the port of a server that is restarted. Another server may take one
// before it is used: when a server has ended at once, which start says by wrapping the error of
// [Process.Start], it tries again with other ports.
func OnFreePorts(ctx context.Context, n int, start func(ports []string) error) error {
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		ports, err := freePorts(ctx, n)
		if err != nil {
			return fmt.Errorf("finding a free port: %w", err)
		}
		err = start(ports)
		if !errors.Is(err, errEnded) || try == portTries {
			return err
		}
	}
}

const portTries = 5 // of OnFreePorts

// The ports that freePorts has found: a server that is down comes back on its own.
var taken sync.Map

// freePorts finds n such ports that it has not returned before. It leaves room for the port
// 10000 above each, where nodes of a cluster talk to each other.
func freePorts(ctx context.Context, n int) (ports []string, err error) {
	// Also 10000 above the highest is below 32768, the first that Linux gives out by default.
	const lowest, highest, tries = 10000, 22000, 1000
	for range tries {
		if len(ports) == n {
			return ports, nil
		}

		port := strconv.Itoa(lowest + rand.IntN(highest-lowest))
		l, failed := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
		err = failed
		if err == nil {
			defer l.Close()
			if _, before := taken.LoadOrStore(port, true); !before {
				ports = append(ports, port)
			}
		}
	}
	return nil, cmp.Or(err, errors.New("all that are free have been used by this process"))
}
