package explore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/verify"
)

// A client that waits in the server for an element is served when there is one, or told
// that there is none when its time-out has come.
func TestWaitsInTheServer(t *testing.T) {
	for waits, test := range map[string]struct {
		waits, adds func(context.Context, *redisconn.Conn) string
		want        string
	}{
		"BLPOP": {
			func(ctx context.Context, c *redisconn.Conn) string {
				return fmt.Sprint(c.BLPop(ctx, time.Second, "queue"), c.BLPop(ctx, time.Second, "queue").Err())
			},
			func(ctx context.Context, c *redisconn.Conn) string {
				return fmt.Sprint(c.RPush(ctx, "queue", "a").Val())
			},
			"adds: 1, waits: blpop queue 1: [queue a]redis: nil",
		},
		"XREAD": {
			func(ctx context.Context, c *redisconn.Conn) string {
				next := &redis.XReadArgs{Streams: []string{"stream", "$"}, Block: time.Second}
				found, err := c.XRead(ctx, next).Result()
				if err != nil {
					return err.Error()
				}
				return fmt.Sprint(found[0].Messages[0].Values, c.XRead(ctx, next).Err())
			},
			func(ctx context.Context, c *redisconn.Conn) string {
				add := &redis.XAddArgs{Stream: "stream", Values: []string{"is", "free"}}
				return fmt.Sprint(c.XAdd(ctx, add).Err())
			},
			"adds: <nil>, waits: map[is:free]redis: nil",
		},
	} {
		p := Program{Name: waits, Subject: "test", LockServers: 1, Begin: func(*Server) *Trial {
			var told []string
			client := func(
				name string, after time.Duration, do func(context.Context, *redisconn.Conn) string) Client {

				return Client{name, connectedTo(0, func(ctx context.Context, c *redisconn.Conn) string {
					time.Sleep(after)
					told = append(told, name+": "+do(ctx, c))
					return ""
				})}
			}

			clients := []Client{
				client("waits", 0, test.waits),
				client("adds", 500*time.Millisecond, test.adds),
			}
			return &Trial{Clients: clients, Judge: func(*Server) []verify.Violation {
				all := strings.Join(told, ", ")
				return planted(all != test.want, all)
			}}
		}}

		r, err := searched(t, p, Bounds{})
		if err != nil || len(r.Found) > 0 {
			t.Error(waits, err, r)
		}
	}
}

// What a connection has selected outlasts a restart of the server.
func TestSelectedOutlastsARestart(t *testing.T) {
	p := Program{Name: "selects", Subject: "test", LockServers: 1, Begin: func(*Server) *Trial {
		sets := connectedTo(0, func(ctx context.Context, c *redisconn.Conn) string {
			one := c.Client.Conn()
			defer one.Close()
			_ = one.Select(ctx, 3).Err()
			_ = one.Set(ctx, "first", "", 0).Err()
			return fmt.Sprint(one.Set(ctx, "second", "", 0).Val())
		})

		return &Trial{Clients: []Client{{"A", sets}}, Judge: func(s *Server) []verify.Violation {
			exists := s.world.lockServer(0).Do("EXISTS", "second")
			return planted(exists != ":0\r\n", "it is in the first database")
		}}
	}}

	r, err := searched(t, p, Bounds{Faults: 1, Kinds: []Fault{Empty}})
	if err != nil || len(r.Found) > 0 || r.Schedules < 2 {
		t.Error(err, r)
	}
}
