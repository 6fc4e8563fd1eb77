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

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/market/backend"
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
			{"command by its key", b.proxy.LoseCommand, wire.Match{Text: b.key}, true, 1},
			{"another command", b.proxy.LoseCommand, wire.Match{Command: "decr"}, false, 2},
			{"another key", b.proxy.LoseCommand, wire.Match{Command: "incr", Text: b.key + "x"}, false, 3},
			{"another connection", b.proxy.LoseCommand, wire.Match{Command: "incr", Conn: 1000}, false, 4},
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
		if _, err := through.TxPipelined(b.Context(), twice); err != nil {
			b.Fatal(err)
		}
		rehearsed := b.proxy.Commands()
		if want := []string{"multi", "incr", "incr", "exec"}; !slices.Equal(rehearsed, want) {
			b.Fatalf("it saw %v, want %v", rehearsed, want)
		}
		executed := int64(2)
		for n := range rehearsed {
			b.proxy.LoseCommand(wire.Match{Nth: n + 1, Conn: b.proxy.Accepted()})
			if _, err := through.TxPipelined(b.Context(), twice); err == nil {
				b.Errorf("command %d was lost, but no error returned", n+1)
			}
			b.wantCount(rehearsed[n]+" lost", executed)
			if err := through.Ping(b.Context()).Err(); err != nil {
				b.Fatal(err)
			}
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
		c, err := net.Dial("tcp", b.proxy.Addr())
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		b.proxy.LoseReply(wire.Match{Command: "incr", Nth: 2})
		if _, err := io.WriteString(c, strings.Repeat(incrWords(b.key), 3)); err != nil {
			b.Fatal(err)
		}
		c.SetReadDeadline(time.Now().Add(soon))
		if got, err := io.ReadAll(c); err != nil || string(got) != ":1\r\n" {
			b.Errorf("three commands were answered %q, %v; want the first reply and the end", got, err)
		}
		b.wantCount("second reply lost", 2)
	})
}

func TestHoldsACommand(t *testing.T) {
	onEach(t, func(b bench) {
		held, free := b.dial(), b.dial()
		trap := b.proxy.Hold(wire.Match{Command: "incr"})
		done := b.incr(held)
		within(b, "the command", trap.Reached())
		b.wantCount("held", 0)
		if err := free.Incr(b.Context(), b.key).Err(); err != nil {
			b.Errorf("a second command, which is let be: %v", err)
		}
		b.wantCount("held", 1)
		trap.Open()
		if err := within(b, "opened", done); err != nil {
			b.Error(err)
		}
		b.wantCount("opened", 2)
	})
}

func TestHeldCommandOutlivesItsClient(t *testing.T) {
	onEach(t, func(b bench) {
		through := b.dial()
		trap := b.proxy.Hold(wire.Match{Command: "incr"})
		done := b.incr(through)
		within(b, "the command", trap.Reached())
		through.Close()
		if err := within(b, "closed", done); err == nil {
			b.Error("a closed client was answered")
		}
		b.wantCount("held", 0)
		trap.Open()
		b.awaitCount("delivered late", 1)
	})
}

func TestHoldsAReply(t *testing.T) {
	onEach(t, func(b bench) {
		through := b.dial()
		trap := b.proxy.HoldReply(wire.Match{Command: "incr"})
		done := b.incr(through)
		within(b, "the reply", trap.Reached())
		b.wantCount("reply held", 1)
		select {
		case err := <-done:
			b.Errorf("the reply was held, but INCR returned %v", err)
		default:
		}
		trap.Open()
		if err := within(b, "opened", done); err != nil {
			b.Error(err)
		}
	})
}

func TestScriptIsKnownByItsText(t *testing.T) {
	onEach(t, func(b bench) {
		through := b.dial()
		script := redis.NewScript("return redis.call('INCR', KEYS[1]) -- the chosen one")
		other := redis.NewScript("return redis.call('INCR', KEYS[1]) -- some other")
		run := func(s *redis.Script) error { return s.Run(b.Context(), through, []string{b.key}).Err() }
		for _, s := range []*redis.Script{script, other} { // EVALSHA is refused, EVAL brings the text
			if err := run(s); err != nil {
				b.Fatal(err)
			}
		}
		trap := b.proxy.LoseReply(wire.Match{Command: "evalsha", Text: "chosen one"})
		if err := run(other); err != nil {
			b.Errorf("the other script: %v", err)
		}
		if err := run(script); err == nil {
			b.Error("the chosen script's reply was not lost")
		}
		within(b, "the chosen script", trap.Reached())
		b.wantCount("scripts", 4)
	})
}

// It needs a real server: miniredis hands messages out beside its replies, so a PONG may overtake what was published
// before.
func TestDropsMessages(t *testing.T) {
	b := on(t, testkit.Local(t))
	for _, version := range []int{2, 3} {
		client := redis.NewClient(&redis.Options{Addr: b.proxy.Addr(), Protocol: version})
		defer client.Close()
		sub := client.Subscribe(b.Context(), b.key, b.key+"2")
		defer sub.Close()
		for range 2 {
			if _, err := sub.Receive(b.Context()); err != nil {
				b.Fatal(err)
			}
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
				b.Fatalf("version %d: heard %v, %v; want %s", version, got, err, want)
			}
		}
		say("first")
		hear("first")
		b.proxy.DropMessages()
		say("lost")
		// What is asked for passes, and comes after what was dropped.
		if err := sub.Ping(b.Context(), "ping"); err != nil {
			b.Fatal(err)
		}
		got, err := sub.ReceiveTimeout(b.Context(), soon)
		if pong, ok := got.(*redis.Pong); err != nil || !ok || pong.Payload != "ping" {
			b.Fatalf("version %d: heard %v, %v; want the answer to PING", version, got, err)
		}
		b.proxy.Heal()
		say("second")
		hear("second")
		sub.Close()
		client.Close()
	}
}

func TestMessagesAreNoReplies(t *testing.T) {
	onEach(t, func(b bench) {
		client := redis.NewClient(&redis.Options{Addr: b.proxy.Addr(), Protocol: 2})
		defer client.Close()
		sub := client.Subscribe(b.Context(), b.key, b.key+"2") // answered twice
		defer sub.Close()
		for range 2 {
			if _, err := sub.Receive(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		trap := b.proxy.HoldReply(wire.Match{Command: "ping"})
		b.direct.Publish(b.Context(), b.key, "hello")
		if m, err := sub.ReceiveMessage(b.Context()); err != nil || m.Payload != "hello" {
			b.Fatalf("%v, %v", m, err)
		}
		select {
		case <-trap.Reached():
			b.Error("a message was taken for a reply")
		default:
		}
		if err := sub.Ping(b.Context()); err != nil {
			b.Fatal(err)
		}
		within(b, "the reply to PING", trap.Reached())
		trap.Open()
		if _, err := sub.Receive(b.Context()); err != nil {
			b.Error(err)
		}
	})
}

func TestRefusesWhatItCannotRead(t *testing.T) {
	_, err := wire.StartRedis(backend.Target{Network: "tcp", Addr: "h:1", TLS: &tls.Config{}, Password: "SECRET"})
	if err == nil || !strings.Contains(err.Error(), "without TLS") || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("a target with TLS: %v", err)
	}
}
