package wire_test

import (
	"crypto/tls"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
)

func TestLosesWhatWasChosen(t *testing.T) {
	onEach(t, func(b bench) {
		through := b.dial()
		for _, step := range []struct {
			name  string
			set   func(wire.Match) *wire.Trap
			match wire.Match
			fails bool
			want  int64 // executed so far
		}{
			{"reply", b.proxy.LoseReply, wire.Match{Command: "INCR"}, true, 1},
			{"command", b.proxy.LoseCommand, wire.Match{Command: "incr"}, true, 1},
			{"any command", b.proxy.LoseCommand, wire.Match{}, true, 1},
			{"another command", b.proxy.LoseCommand, wire.Match{Command: "decr"}, false, 2},
		} {
			trap := step.set(step.match)
			err := through.Incr(b.Context(), b.key).Err()
			if (err != nil) != step.fails {
				b.Errorf("%s: INCR returned %v", step.name, err)
			}

			b.wantCount(step.name, step.want)
			if step.fails {
				within(b, step.name, trap.Reached())
			}
			trap.Open()
			if err := through.Ping(b.Context()).Err(); err != nil { // it connects anew
				b.Errorf("%s: and then %v", step.name, err)
			}
		}
	})
}

func TestTransactionsAreSeenCommandByCommand(t *testing.T) {
	onEach(t, func(b bench) {
		through := b.dial()
		twice := func(p redis.Pipeliner) error {
			p.Incr(b.Context(), b.key)
			p.Incr(b.Context(), b.key)
			return nil
		}

		b.proxy.Record()
		testkit.Must(through.TxPipelined(b.Context(), twice))(b)
		rehearsed := b.proxy.Commands()
		if want := []string{"multi", "incr", "incr", "exec"}; !slices.Equal(rehearsed, want) {
			b.Fatalf("it saw %v, want %v", rehearsed, want)
		}

		executed := int64(2)
		for n := range rehearsed {
			b.proxy.LoseCommand(wire.Match{Nth: n + 1})
			if _, err := through.TxPipelined(b.Context(), twice); err == nil {
				b.Errorf("command %d was lost, but no error returned", n+1)
			}
			b.wantCount(rehearsed[n]+" lost", executed)
			testkit.Succeeds(b, through.Ping(b.Context()).Err())
		}

		b.proxy.LoseReply(wire.Match{Command: "exec"})
		if _, err := through.TxPipelined(b.Context(), twice); err == nil {
			b.Error("the reply to EXEC was lost, but no error returned")
		}
		b.wantCount("reply to EXEC lost", executed+2)
	})
}

func TestPipelineBeforeALostReplyIsAnswered(t *testing.T) {
	onEach(t, func(b bench) {
		c := testkit.Must(net.Dial("tcp", b.proxy.Addr()))(b)
		defer c.Close()
		b.proxy.LoseReply(wire.Match{Command: "incr", Nth: 2})
		login := "*2\r\n$4\r\nAUTH\r\n$26\r\n" + b.server.Target.Password + "\r\n"
		testkit.Must(io.WriteString(c, login+strings.Repeat(incrWords(b.key), 3)))(b)
		c.SetReadDeadline(time.Now().Add(soon))
		if got, err := io.ReadAll(c); err != nil || string(got) != "+OK\r\n:1\r\n" {
			b.Errorf("three commands were answered %q, %v; want the first reply and the end", got, err)
		}
		b.wantCount("second reply lost", 2)
	})
}

// A command that is held is executed when its trap opens, whether or not its client has
// hung up, and is lost where its connection is cut.
func TestHoldsACommand(t *testing.T) {
	onEach(t, func(b bench) {
		for name, meanwhile := range map[string]func(*redisconn.Conn){
			"nothing": func(*redisconn.Conn) {},
			"hangs up": func(c *redisconn.Conn) {
				c.Close()
			},
			"cut": func(*redisconn.Conn) {
				b.proxy.Cut()
			},
		} {
			b.direct.Del(b.Context(), b.key)
			held := b.dial()
			trap := b.proxy.Hold(wire.Match{Command: "incr"})
			done := b.incr(held)
			within(b, name, trap.Reached())
			b.wantCount(name+", held", 0)

			meanwhile(held)
			if name != "nothing" {
				if err := within(b, name, done); err == nil {
					b.Errorf("%s: INCR was answered", name)
				}
			}
			if err := b.dial().Incr(b.Context(), b.key).Err(); err != nil {
				b.Errorf("%s: a second command, which is let be: %v", name, err)
			}

			trap.Open()
			if name != "nothing" {
				within(b, name, trap.Ended())
			}
			if name == "cut" {
				b.wantCount(name, 1)
				continue
			}

			within(b, name, trap.Answered())
			b.wantCount(name, 2)
			if name == "nothing" {
				if err := within(b, name, done); err != nil {
					b.Error(err)
				}
			}
		}
	})
}

// It needs a real server: miniredis hands messages out beside its replies, so a PONG may
// overtake what was published before.
func TestDropsMessages(t *testing.T) {
	b := on(t, testkit.Local(t))
	sub := b.dial().Subscribe(b.Context(), b.key, b.key+"2")
	defer sub.Close()
	for range 2 {
		testkit.Must(sub.Receive(b.Context()))(b)
	}

	say := func(text string) {
		b.Helper()
		if n, err := b.direct.Publish(b.Context(), b.key, text).Result(); err != nil || n != 1 {
			b.Fatalf("%d heard %s, %v", n, text, err)
		}
	}
	hear := func(want string) {
		b.Helper()
		got, err := sub.ReceiveTimeout(b.Context(), soon)
		if m, ok := got.(*redis.Message); err != nil || !ok || m.Payload != want {
			b.Fatalf("heard %v, %v; want %s", got, err, want)
		}
	}

	say("first")
	hear("first")
	b.proxy.DropMessages()
	say("lost")

	// What is asked for passes, and comes after what was dropped.
	testkit.Succeeds(b, sub.Ping(b.Context(), "ping"))
	got, err := sub.ReceiveTimeout(b.Context(), soon)
	if pong, ok := got.(*redis.Pong); err != nil || !ok || pong.Payload != "ping" {
		b.Fatalf("heard %v, %v; want the answer to PING", got, err)
	}

	b.proxy.Heal()
	say("second")
	hear("second")
}

func TestRefusesWhatItCannotRead(t *testing.T) {
	_, err := wire.StartRedis("tcp", "h:1", &tls.Config{})
	if err == nil || !strings.Contains(err.Error(), "without TLS") {
		t.Errorf("a server with TLS: %v", err)
	}
}
