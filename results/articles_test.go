package results_test

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// The rows of docs/articles.md: what an article's code is here, and of a lock what it sends
// to be taken and to be released.
var (
	articleLock = regexp.MustCompile("(?m)^\\|[^|]+\\|[^|]+\\| `([^`]+)` \\| ([^|]+) \\| ([^|]+) " +
		"\\| `faults --scenario \\S+ --lock (\\S+)` \\|")
	articleStrategy = regexp.MustCompile("(?m)^\\|[^|]+\\|[^|]*\\| `([^`]+)` \\|$")
)

// TestArticlesLeadToSchemes: each name of docs/articles.md is there, and a lock sends what
// its row says.
func TestArticlesLeadToSchemes(t *testing.T) {
	page := text(t, "../docs/articles.md")
	locks := articleLock.FindAllStringSubmatch(page, -1)
	others := articleStrategy.FindAllStringSubmatch(page, -1)
	if len(locks) != 11 || len(others) != 4 {
		t.Errorf("%d rows of locks, want 11, and %d of strategies, want 4", len(locks), len(others))
	}

	for _, row := range locks {
		name, take, release := row[1], row[2], row[3]
		if row[4] != name {
			t.Errorf("the row of %s tries %s", name, row[4])
		}
		took, released := sentBy(t, name)
		if took != take || released != release {
			t.Errorf("%s takes by %s, and releases by %s; its row says %s, and %s", name, took, released, take, release)
		}
	}

	for _, row := range others {
		spec, err := catalogue.Full().Parse(row[1])
		if err != nil || spec.String() != row[1] {
			t.Errorf("%s is %s: %v", row[1], spec, err)
		}
	}
}

// sentBy is what a lock sends to be taken when it is free, and to be released.
func sentBy(t *testing.T, name string) (take, release string) {
	t.Helper()
	spec := testkit.Must(catalogue.Full().Parse("fine:" + name))(t)
	conn := testkit.Dial(t, testkit.Embedded(t))
	sent := new(commandNames)
	conn.AddHook(sent)
	locker := testkit.Must(spec.OpenLock(strategies.Env{
		Redis: conn.Client,
		Keys:  testkit.Keys(t),
		NewClient: func(context.Context) (*redis.Client, error) {
			return nil, errors.New("nothing is renewed here")
		},
	}))(t)
	if c, ok := locker.(io.Closer); ok {
		defer c.Close()
	}

	for range 2 { // the server knows its scripts the second time
		*sent = nil
		lease := testkit.Must(locker.Try(t.Context(), "item"))(t)
		take = sent.words()
		*sent = nil
		testkit.Succeeds(t, lease.Release(t.Context()))
		release = sent.words()
	}
	return take, release
}

// commandNames are the commands that a connection sends. It is its hook.
type commandNames []string

// words are the commands as an article names them, without the UNWATCH of the client.
func (n *commandNames) words() string {
	var words []string
	for _, name := range *n {
		switch name {
		case "unwatch":
		case "evalsha":
			words = append(words, "a script")
		default:
			words = append(words, strings.ToUpper(name))
		}
	}
	return strings.Join(words, ", ")
}

func (n *commandNames) DialHook(next redis.DialHook) redis.DialHook { return next }

func (n *commandNames) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		*n = append(*n, cmd.Name())
		return next(ctx, cmd)
	}
}

func (n *commandNames) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			*n = append(*n, cmd.Name())
		}
		return next(ctx, cmds)
	}
}
