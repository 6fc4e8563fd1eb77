package lock_test

import (
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/backend/backendtest"
	"github.com/marketsim/marketsim/strategies/param"
)

// A TTL is given in seconds or in milliseconds, as it is written.
func TestTTLIsWhatWasAskedFor(t *testing.T) {
	server := backendtest.Local(t)
	for _, lockName := range []string{
		"setnx-expire-naive", "set-ex-fixed", "set-ex-compare", "setnx-expire", "set-px", "reentrant",
		"reentrant-local", "fenced",
	} {
		for _, text := range []string{"20s", "19.99s"} {
			b := newBench(t, server)
			lease := b.try(b.worker(lockName, setting{params: param.Values{"ttl": text}}))
			want, _ := time.ParseDuration(text)
			if ttl := b.ttl(); ttl > want || ttl < want-900*time.Millisecond {
				t.Errorf("%s:ttl=%s expires in %s", lockName, text, ttl)
			}
			wants(t, lockName+" is released", lease.Release(t.Context()), nil)
			b.free()
		}
	}
}
