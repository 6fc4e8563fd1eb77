package market_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/marketsim/marketsim/market"
)

type closerFunc func() error

func (f closerFunc) Close() error { return f() }

// A worker's context ends before what it has open is closed, and also if it
// could not be opened.
func TestAWorkersLifeEndsBeforeItIsClosed(t *testing.T) {
	for _, failure := range []error{nil, errors.New("cannot open")} {
		closed := 0
		open := market.Open(func(ctx context.Context, _ market.Worker) (market.Purchaser, io.Closer, error) {
			return nil, closerFunc(func() error {
				closed++
				if ctx.Err() == nil {
					t.Error("it is closed while its context lives")
				}
				return nil
			}), failure
		})

		_, life, err := open.For(t.Context(), market.Worker{})
		if err == nil {
			err = life.Close()
		}
		if !errors.Is(err, failure) || closed != 1 {
			t.Errorf("opened with %v, it returned %v and was closed %d times", failure, err, closed)
		}
	}

	open := market.Open(func(context.Context, market.Worker) (market.Purchaser, io.Closer, error) { return nil, nil, nil })
	_, life, err := open.For(t.Context(), market.Worker{})
	if err != nil || life.Close() != nil {
		t.Errorf("without anything to close: %v", err)
	}
}
