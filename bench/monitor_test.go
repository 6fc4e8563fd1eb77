package bench

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend"
)

// served is what a server did for the buyers of a row, as MONITOR and INFO tell it: browsing is left out, and so is
// what a script did inside.
type served struct {
	monitored int64            // commands that MONITOR shows
	grouped   int64            // the same with all from MULTI to EXEC as one, because they travel together
	browses   int64            // ZRANDMEMBER
	inner     map[string]int64 // commands of scripts, by name
	calls     map[string]int64 // by INFO commandstats, scripts and their commands both
	reads     int64            // times that the server read from a connection, by INFO stats
}

// TestTrafficIsWhatTheServerSaw: a fixed number of purchases by several buyers at a time, with each strategy. What the
// row says they sent is compared with what the server says that it got:
//
//   - Commands are those of MONITOR, and those of commandstats less what scripts did inside, which is counted there,
//     too. One difference is explained: neither has the writes of a transaction that was aborted. They were sent, and
//     never ran.
//   - Round trips are the commands of MONITOR with all from MULTI to EXEC as one, and the server's reads.
func TestTrafficIsWhatTheServerSaw(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"watch", "coarse", "fine", "fine-wallet", "unsafe", "fine:fenced:fencing=on",
	} {
		t.Run(name, func(t *testing.T) {
			s := testkit.Local(t)
			c := config(t, s, spec(t, name))
			c.Mix, c.Purchases = result.Mix{Sellers: 1, Buyers: 3}, 60
			row, saw := monitoredRow(t, s, c)
			neverRan := int64(0)
			if name == "watch" {
				neverRan = 4 * row.Retries
			}
			bought := float64(row.Bought)
			commands, trips := int64(row.Cost.Market.Commands*bought+0.5), int64(row.Cost.Market.RoundTrips*bought+0.5)
			if row.Bought < c.Purchases || commands != saw.monitored+neverRan {
				t.Errorf("%d purchases in %d commands by the row; by MONITOR %d, and %d that never ran", row.Bought, commands,
					saw.monitored, neverRan)
			}
			if trips != saw.grouped || trips != saw.reads {
				t.Errorf("%d round trips by the row; %d by MONITOR, %d reads", trips, saw.grouped, saw.reads)
			}
			var calls int64
			for command, n := range saw.calls {
				calls += n - saw.inner[command]
			}
			if calls != saw.monitored {
				t.Errorf("%d commands by commandstats %v, %d by MONITOR, and in scripts %v", calls, saw.calls, saw.monitored,
					saw.inner)
			}
			if strings.Contains(name, "fencing") != (len(saw.inner) > 0) {
				t.Errorf("commands in scripts: %v", saw.inner)
			}
		})
	}
}

// monitoredRow lets buyers make the purchases of a row while somebody watches, and returns the row without its audit.
func monitoredRow(t *testing.T, s *backend.Server, c Config) (result.Row, served) {
	t.Helper()
	workers := connected(t, c)
	for range 200 {
		if err := workers.sellers[0].List(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	other := testkit.Dial(t, s)
	saw := served{inner: map[string]int64{}}
	before, readsBefore := info(t, other)
	lines := monitor(t, s)

	m := newMeasurement(workers)
	var buyers sync.WaitGroup
	for _, w := range workers.buyers {
		buyers.Go(func() { m.buy(t.Context(), w) })
	}
	buyers.Wait()
	m.stop.set(result.Complete, nil)

	other.Echo(t.Context(), "the end")
	for command := range lines {
		saw.add(command)
	}
	after, readsAfter := info(t, other)
	for name, n := range before {
		after[name] -= n
	}
	for _, ours := range []string{"info", "monitor", "echo", "zrandmember"} {
		delete(after, ours)
	}
	// Of the reads, four are those of MONITOR, ECHO and the last two INFO.
	saw.calls, saw.reads = after, readsAfter-readsBefore-saw.browses-4
	if err := workers.Close(); err != nil {
		t.Error(err)
	}
	return m.row(), saw
}

// add counts a line of MONITOR: a time, where the command comes from, and the command.
func (s *served) add(line monitored) {
	switch {
	case line.script:
		s.inner[line.command]++
	case line.command == "zrandmember":
		s.browses++
	default:
		s.monitored++
		if !line.inMulti {
			s.grouped++
		}
	}
}

// monitored is a command that MONITOR shows.
type monitored struct {
	command string
	script  bool // it was called by a script
	inMulti bool // it came after MULTI
}

// monitor shows the commands that s runs from now on, up to the next ECHO.
func monitor(t *testing.T, s *backend.Server) <-chan monitored {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), s.Target.Network, s.Target.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("MONITOR: %q, %v", lines.Text(), lines.Err())
	}
	seen := make(chan monitored, 100_000)
	go func() {
		defer close(seen)
		open := map[string]bool{} // connections between MULTI and EXEC
		for lines.Scan() {
			// 1700000000.123456 [0 127.0.0.1:40000] "HGET" "key" "field"
			_, rest, _ := strings.Cut(lines.Text(), "[0 ")
			from, rest, _ := strings.Cut(rest, "] ")
			command, _, _ := strings.Cut(strings.ToLower(strings.TrimPrefix(rest, `"`)), `"`)
			if command == "echo" {
				return
			}
			seen <- monitored{command: command, script: from == "lua", inMulti: open[from]}
			switch command {
			case "multi":
				open[from] = true
			case "exec", "discard":
				open[from] = false
			}
		}
	}()
	return seen
}

// info is how often each command was called, and how often the server read from a connection.
func info(t *testing.T, conn *backend.Conn) (calls map[string]int64, reads int64) {
	t.Helper()
	calls = map[string]int64{}
	stats, err := conn.InfoFields(context.Background(), "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range stats {
		name, _ := strings.CutPrefix(name, "cmdstat_")
		calls[name] = int64(field(value, "calls"))
	}
	rest, err := conn.InfoFields(context.Background(), "stats")
	if err != nil {
		t.Fatal(err)
	}
	reads, _ = strconv.ParseInt(rest["total_reads_processed"], 10, 64)
	return calls, reads
}
