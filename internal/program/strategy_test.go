package program_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies"
)

// A program that has not answered is asked no more: its next line may be about
// what it was told before.
func TestExecutedAndSilent(t *testing.T) {
	const late = "read -r ready; read -r first; echo gone; read -r second; echo bought; read -r end"
	env := strategies.Env{Redis: redis.NewClient(&redis.Options{Addr: "localhost:1"})}
	defer env.Redis.Close()
	p, closer, err := program.Strategy("exec:late", []string{"/bin/sh", "-c", late}).New(env)
	if err != nil {
		t.Fatal(err)
	}
	defer closer.Close()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	if _, err := p.Purchase(ctx, market.Order{Buyer: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("a purchase that was ended: %v", err)
	}
	if _, err := p.Purchase(t.Context(), market.Order{Buyer: 1}); !errors.Is(err, market.ErrNotSent) {
		t.Errorf("the next one: %v", err)
	}
}
