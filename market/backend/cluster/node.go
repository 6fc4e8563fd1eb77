package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"

	"github.com/marketsim/marketsim/market/backend"
)

const (
	portTries = 10
	// busOffset is how far above a node's port its peers talk to it.
	busOffset = 10000
)

// startNode starts one node that is in no cluster yet. Another process may take one of its two ports before it does.
func startNode(ctx context.Context) (*backend.Server, error) {
	var failed error
	for range portTries {
		port, err := freePair(ctx)
		if err != nil {
			return nil, err
		}
		s, err := backend.Local{Args: []string{
			"--port", strconv.Itoa(port), "--cluster-enabled", "yes", "--cluster-node-timeout", nodeTimeout,
			"--repl-diskless-sync-delay", "0",
		}}.Start(ctx)
		if err == nil || errors.Is(err, backend.ErrUnavailable) || ctx.Err() != nil {
			return s, err
		}
		failed = err
	}
	return nil, failed
}

// freePair finds a port that is free and whose bus port is free, too. It stays below the range from which the system
// takes the ports of outgoing connections.
func freePair(ctx context.Context) (int, error) {
	const lowest, highest = 10000, 22000
	var taken error
	for range 100 {
		port := lowest + rand.IntN(highest-lowest)
		if taken = errors.Join(probe(ctx, port), probe(ctx, port+busOffset)); taken == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("finding two free ports for a cluster node: %w", taken)
}

func probe(ctx context.Context, port int) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}
