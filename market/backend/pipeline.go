package backend

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// ErrHalfDuplex is returned by [FullDuplex] for a client whose pipeline would wait for the replies to a batch before it
// sends the next one. It was not dialled under [Pipelining], or somebody made its AutoPipeline with other options.
var ErrHalfDuplex = errors.New("go-redis has turned full duplex off: the client needs a pool for pipelines, " +
	"and the first to ask for its AutoPipeline chooses the options")

// pipeliningKey is the key of Pipelining's value.
type pipeliningKey struct{}

// Pipelining returns a context under which [Dial] makes a client that all workers of a process share: the one exception
// to its rules, which the package comment explains. Such a client counts for itself whatever [CountInto] says.
func Pipelining(ctx context.Context) context.Context {
	return context.WithValue(ctx, pipeliningKey{}, true)
}

func pipelining(ctx context.Context) bool { return ctx.Value(pipeliningKey{}) != nil }

// FullDuplex returns the AutoPipeline of a client that was dialled under [Pipelining], which many goroutines may use at
// once. It sends their commands over one connection as they come, and does not wait for the replies to those before. A
// command is handed over by Submit; the error of its WaitContext is the context's where that ended first, and the
// command may be sent and executed all the same.
//
// Close it before the client: it waits for what was handed over. The error is [ErrHalfDuplex] where go-redis would not
// send as it is asked to.
func FullDuplex(rdb *redis.Client) (*redis.AutoPipeliner, error) {
	pipeline, err := rdb.AsyncAutoPipelineWithOptions(&redis.AutoPipelineOptions{FullDuplex: true})
	if err != nil {
		return nil, err
	}
	if !pipeline.Config().FullDuplex {
		return nil, errors.Join(ErrHalfDuplex, pipeline.Close())
	}
	return pipeline, nil
}
