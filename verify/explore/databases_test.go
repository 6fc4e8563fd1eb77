package explore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/verify"
)

// A use is what each of two clients does in a database, and what it is told.
type use func(ctx context.Context, rdb *redis.Conn, client int) string

// inDatabase is a program of clients that select a database of the lock server. Its ends
// call that database "database 0".
func inDatabase(database int, use use, all ends) Program {
	return Program{Name: "uses", Subject: "own", LockServers: 1, Begin: func(*Server) *Trial {
		told := make([]string, 2)
		trial := &Trial{State: func() string { return "" }}
		trial.Judge = func(s *Server) []verify.Violation {
			held := s.world.lockServer(0).held()
			number := fmt.Sprintf("database %d\n", database)
			all[strings.ReplaceAll(held, number, "database 0\n")+strings.Join(told, "; ")] = true
			return nil
		}

		for i := range told {
			do := func(ctx context.Context, s *Session) string {
				rdb := redis.NewClient(&redis.Options{
					Dialer:          s.Connect,
					Addr:            s.LockServers()[0],
					DB:              database,
					MaxRetries:      -1,
					DisableIdentity: true,
				})
				defer rdb.Close()
				conn := rdb.Conn()
				defer conn.Close()

				told[i] = use(ctx, conn, i)
				return told[i]
			}
			trial.Clients = append(trial.Clients, Client{Name: string(rune('A' + i)), Do: do})
		}
		return trial
	}}
}

// What clients do in another database than the first ends as it does in the first, in as
// many schedules.
func TestEveryDatabase(t *testing.T) {
	strikes := []Fault{Behind, Empty}
	for name, test := range map[string]struct {
		use
		Bounds
	}{
		"writes":      {writes, Bounds{Faults: 2, Kinds: strikes}},
		"transaction": {queues, Bounds{Preemptions: 1, Faults: 1, Kinds: strikes}},
		"moves":       {moves, Bounds{Preemptions: 1, Faults: 1, Kinds: strikes}},
		"waits":       {waits, Bounds{Preemptions: 1}},
		"polls":       {polls, Bounds{Preemptions: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			b := test.Bounds
			b.Exhaustive = true

			want := ends{}
			first := Run(t, inDatabase(0, test.use, want), b)
			got := ends{}
			other := Run(t, inDatabase(3, test.use, got), b)

			if end := differ(want, got); end != "" {
				t.Errorf("only in database 0: %t, only in database 3: %t\n%s", want[end], got[end], end)
			}
			if first.Schedules != other.Schedules || first.Schedules < 2 {
				t.Errorf("%d schedules in database 0, and %d in database 3", first.Schedules, other.Schedules)
			}
		})
	}
}

// writes: client 0 writes and sets an expiry, client 1 reads.
func writes(ctx context.Context, rdb *redis.Conn, client int) string {
	if client == 1 {
		return fmt.Sprint(rdb.Get(ctx, "first"), rdb.Get(ctx, "second"))
	}
	return fmt.Sprint(rdb.Set(ctx, "first", "1", time.Minute), rdb.Set(ctx, "second", "2", 0),
		rdb.Expire(ctx, "second", time.Minute), rdb.TTL(ctx, "second"))
}

// queues: what is queued is lost with the server, and the connection goes on.
func queues(ctx context.Context, rdb *redis.Conn, client int) string {
	told := fmt.Sprint(rdb.Do(ctx, "MULTI"), rdb.Do(ctx, "SET", "queued", client), rdb.Do(ctx, "EXEC"))
	return told + fmt.Sprint(rdb.SetNX(ctx, "after", client, 0))
}

// moves: client 0 writes into databases that no connection has selected, client 1 reads.
func moves(ctx context.Context, rdb *redis.Conn, client int) string {
	if client == 1 {
		return fmt.Sprint(rdb.Exists(ctx, "key"))
	}
	return fmt.Sprint(rdb.Set(ctx, "key", "", 0), rdb.Copy(ctx, "key", "copy", 5, false),
		rdb.Move(ctx, "key", 6), rdb.Do(ctx, "SWAPDB", 6, 7))
}

// waits: client 1 waits in the server for what client 0 adds.
func waits(ctx context.Context, rdb *redis.Conn, client int) string {
	if client == 1 {
		next := &redis.XReadArgs{Streams: []string{"stream", "$"}, Block: 2 * time.Second}
		return fmt.Sprint(rdb.BLPop(ctx, 2*time.Second, "list"), rdb.XRead(ctx, next))
	}
	pushed := rdb.RPush(ctx, "list", "element")
	time.Sleep(time.Second)
	added := &redis.XAddArgs{Stream: "stream", ID: "9-1", Values: []string{"field", "value"}}
	return fmt.Sprint(pushed, rdb.XAdd(ctx, added))
}

// polls: client 1 asks again and again until client 0 has written.
func polls(ctx context.Context, rdb *redis.Conn, client int) string {
	if client == 0 {
		return fmt.Sprint(rdb.Set(ctx, "key", "", 0), rdb.Get(ctx, "key"), rdb.Del(ctx, "key"))
	}
	for asked := range 20 {
		if rdb.Exists(ctx, "key").Val() > 0 {
			return fmt.Sprint("there after ", asked)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return "not there"
}

// A connection that selects another database touches no watched key: whether a SET of the
// value that was there came before the WATCH, or after it, still matters. A second client
// sees that the WATCH has come, and selects before the EXEC.
func TestToSelectTouchesNothing(t *testing.T) {
	endings := func(unmerged bool) ends {
		all := ends{}
		p := Program{Name: "touches", Subject: "own", Begin: func(s *Server) *Trial {
			s.Do("SET", "key", "same")
			told := make([]string, 2)
			watches := connected(func(ctx context.Context, conn *redisconn.Conn) string {
				_ = conn.Do(ctx, "WATCH", "key").Err()
				_ = conn.Set(ctx, "watched", "yes", 0).Err()
				_, err := conn.TxPipelined(ctx, func(p redis.Pipeliner) error {
					return p.Set(ctx, "executed", "yes", 0).Err()
				})
				told[0] = fmt.Sprint(err)
				return told[0]
			})

			selects := connected(func(ctx context.Context, conn *redisconn.Conn) string {
				_ = conn.Set(ctx, "key", "same", 0).Err()
				told[1] = conn.Get(ctx, "watched").String()
				_ = conn.Do(ctx, "SELECT", 5).Err()
				_ = conn.Do(ctx, "SELECT", 0).Err()
				told[1] += conn.Get(ctx, "executed").String()
				return told[1]
			})

			return &Trial{
				Clients: []Client{{"A", watches}, {"B", selects}},
				State:   func() string { return "" },
				Judge: func(*Server) []verify.Violation {
					all[strings.Join(told, "; ")] = true
					return nil
				},
			}
		}}

		Run(t, p, Bounds{Preemptions: 4, Exhaustive: true, Unmerged: unmerged})
		return all
	}

	want := endings(true)
	got := endings(false)
	if end := differ(want, got); end != "" {
		t.Errorf("only with merged states %t, only without %t: %s", got[end], want[end], end)
	}
}

// A database that a command names is in use, also if no connection selects it.
func TestDatabasesInUse(t *testing.T) {
	for command, want := range map[string][]string{
		"SELECT 4":                             {"4"},
		"SWAPDB 0 5":                           {"0", "5"},
		"MOVE key 6":                           {"6"},
		"COPY key db DB 7 REPLACE":             {"7"},
		"COPY db copy":                         nil,
		"SET key 8":                            nil,
		"MOVE key":                             nil,
		"COPY key":                             nil,
		"COPY source destination REPLACE db 9": {"9"},
	} {
		words := strings.Fields(command)
		if got := databasesIn(words[0], words[1:]); !slices.Equal(got, want) {
			t.Errorf("%s names %q, want %q", command, got, want)
		}
	}
}
