package results_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/servers/serverstest"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/internal/view"
	"github.com/marketsim/marketsim/internal/wire"
)

// tried is the part of docs/clients.md that TestClients writes.
var tried = regexp.MustCompile(`(?s)(<!-- tried -->\n)(.*?)(<!-- end -->)`)

// What a client is asked to do, and the command whose reply it loses.
const (
	count = "incrby" // add 1 to n
	// Pay 10 of the coins: WATCH, GET, MULTI, SET, EXEC, again as long as that is refused.
	buy   = "buy"
	price = 10
)

// A client is a library with its options. It is asked to do something on the server at
// addr, and says which version it is and what whoever called it was told.
type client struct {
	name string
	do   func(t *testing.T, addr, what string) (version, told string)
}

// clients are those that TestClients tries, in the order of its table in docs/clients.md.
func clients() []client {
	const (
		python = "/usr/bin/python3" // Debian's, which has Debian's redis-py
		// phpredis may connect again and wait there for the lost reply, for 60 s.
		php = "php -d default_socket_timeout=3"
	)

	return []client{
		{"go-redis Client", goClient(redis.Options{})},
		{"go-redis Client, MaxRetries -1", goClient(redis.Options{MaxRetries: -1})},
		{"its ClusterClient", goCluster(redis.ClusterOptions{})},
		{"its ClusterClient, MaxRetries -1", goCluster(redis.ClusterOptions{MaxRetries: -1})},
		{"its ClusterClient, MaxRedirects -1", goCluster(redis.ClusterOptions{MaxRedirects: -1})},
		{
			"a second one with the same options",
			goCluster(usedBefore(redis.ClusterOptions{MaxRedirects: -1})),
		},
		{"redis-py", program(python, "redis_py.py")},
		{"redis-py, careful", program(python, "redis_py.py", "careful")},
		{"node-redis", program("node", "node_redis.js")},
		{"phpredis", program(php, "phpredis.php")},
		{"Predis", program(php, "predis.php")},
		{"redis-rb", program("ruby", "redis_rb.rb")},
		{"redis-rb, reconnect_attempts 0", program("ruby", "redis_rb.rb", "0")},
	}
}

// TestClients tries what docs/clients.md says of client libraries whose replies are lost.
// One that this machine lacks, or has in another version than the page, is left out. With
// -update it writes the page's table, of the versions here.
func TestClients(t *testing.T) {
	t.Parallel()
	const path = "../docs/clients.md"
	before := text(t, path)
	stored := rowsByName(tried.FindString(before))
	all := clients()
	rows := make([][]string, len(all))
	t.Run("side by side", func(t *testing.T) {
		for i, c := range all {
			rows[i] = stored[c.name]
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				rows[i] = tryClient(t, c, rows[i])
			})
		}
	})

	table := view.NewTable("client", "version", "INCRBY", "all lost", "EXEC", "caller gets")
	for _, row := range rows {
		table.Add(row...)
	}
	made := markdown(t, table)
	rewrite(t, path, before, each(tried, before, func(part []string) string {
		return part[1] + made + part[3]
	}))
}

// tryClient is the row of a client, whose row on the page may be of another version.
func tryClient(t *testing.T, c client, row []string) []string {
	t.Helper()
	s := testkit.Local(t)
	w := world{server: s, direct: testkit.Dial(t, s)}
	// the programs know no password
	testkit.Succeeds(t, w.direct.ConfigSet(t.Context(), "requirepass", "").Err())

	one := w.play(t, c, count, 1)
	if len(row) > 1 && row[1] != one.version && !*update {
		testkit.Require(t, "clients", "the page tells of version "+row[1]+", and here is "+one.version)
	}
	always, bought := w.play(t, c, count, 20), w.play(t, c, buy, 1)
	told := one.told
	if bought.told != told {
		told += "; " + bought.told
	}
	return []string{c.name, one.version, one.executed, always.executed, bought.executed, told}
}

// rowsByName are the rows of a table, by their first cells.
func rowsByName(table string) map[string][]string {
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows[cells[0]] = cells
	}
	return rows
}

// A world is a server, and a way to it round the proxy.
type world struct {
	server *backend.Server
	direct *redisconn.Conn
}

// An outcome is what was seen: how often the server executed what the client was asked to
// do once, and what whoever called it was told.
type outcome struct{ version, executed, told string }

// play has a client do something through a proxy that loses the first replies
// to the command that decides.
func (w world) play(t *testing.T, c client, what string, lost int) outcome {
	t.Helper()
	ctx, key, command := t.Context(), "n", "incrby"
	if what == buy {
		key, command = "coins", "exec"
	}

	const start = 1000
	testkit.Succeeds(t, w.direct.Set(ctx, key, start, 0).Err())

	p := testkit.Must(wire.StartRedis(
		w.server.Target.Network, w.server.Target.Addr, w.server.Target.TLS,
	))(t)
	defer p.Close()
	var traps []*wire.Trap
	for i := range lost {
		traps = append(traps, p.LoseReply(wire.Match{Command: command, Nth: i + 1}))
	}

	version, told := c.do(t, p.Addr(), what)

	// What it was told says nothing if every reply arrived.
	select {
	case <-traps[0].Reached():
	default:
		t.Fatalf("no reply to %s was lost; it was told %q", command, told)
	}

	now := testkit.Must(w.direct.Get(ctx, key).Int())(t)
	times := now - start
	if what == buy {
		times = (start - now) / price
	}

	executed := strconv.Itoa(times) + " times"
	if times == 1 {
		executed = "once"
	}
	return outcome{version, executed, told}
}

// program is a client that is a program of docs/clients. It prints a version and what it
// was told, each in a line, and ends with an error only where its library is missing.
func program(
	interpreter, file string, options ...string,
) func(t *testing.T, addr, what string) (version, told string) {
	return func(t *testing.T, addr, what string) (version, told string) {
		t.Helper()
		words := strings.Fields(interpreter)
		if _, err := exec.LookPath(words[0]); err != nil {
			testkit.Require(t, "clients", err.Error())
		}

		host, port, err := net.SplitHostPort(addr)
		testkit.Succeeds(t, err)

		// None waits for as long, on a busy machine too.
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()

		words = append(words, "../docs/clients/"+file, host, port, what)
		cmd := exec.CommandContext(ctx, words[0], append(words[1:], options...)...)
		cmd.Env = append(os.Environ(), "NODE_PATH=/usr/share/nodejs") // where Debian has node-redis
		said, err := cmd.Output()

		lines := strings.Split(string(said), "\n")
		switch failed := (*exec.ExitError)(nil); {
		case ctx.Err() != nil:
			t.Fatalf("docs/clients/%s has not ended within a minute: it said %q", file, said)
		case errors.As(err, &failed):
			testkit.Require(t, "clients",
				fmt.Sprintf("docs/clients/%s: %v: %s%s", file, err, said, failed.Stderr))
		case err != nil || len(lines) != 3:
			t.Fatalf("docs/clients/%s: %v; it said %q", file, err, said)
		}
		return lines[0], lines[1]
	}
}

// goClient is go-redis's client of one server.
func goClient(o redis.Options) func(t *testing.T, addr, what string) (version, told string) {
	return func(t *testing.T, addr, what string) (version, told string) {
		o := o
		o.Addr = addr
		rdb := redis.NewClient(&o)
		defer rdb.Close()
		return redis.Version(), goTold(doInGo(t.Context(), rdb, what))
	}
}

// goCluster is go-redis's client of a cluster, which here is one server with all slots.
func goCluster(
	o redis.ClusterOptions,
) func(t *testing.T, addr, what string) (version, told string) {
	return func(t *testing.T, addr, what string) (version, told string) {
		o := o
		o.ClusterSlots = func(context.Context) ([]redis.ClusterSlot, error) {
			return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addr}}}}, nil
		}
		rdb := redis.NewClusterClient(&o)
		defer rdb.Close()
		return redis.Version(), goTold(doInGo(t.Context(), rdb, what))
	}
}

// usedBefore are options as NewClusterClient leaves them, which changes what it is given.
func usedBefore(o redis.ClusterOptions) redis.ClusterOptions {
	_ = redis.NewClusterClient(&o).Close()
	return o
}

func doInGo(ctx context.Context, rdb redis.UniversalClient, what string) error {
	if what == count {
		return rdb.IncrBy(ctx, "n", 1).Err()
	}

	pay := func(tx *redis.Tx) error {
		coins, err := tx.Get(ctx, "coins").Int()
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, "coins", coins-price, 0).Err()
		})
		return err
	}

	for {
		err := rdb.Watch(ctx, pay, "coins")
		if !errors.Is(err, redis.TxFailedErr) {
			return err
		}
	}
}

func goTold(err error) string {
	switch {
	case err == nil:
		return "no error"
	case errors.Is(err, io.EOF):
		return "io.EOF"
	}
	return err.Error()
}

// A ClusterClient whose MaxRedirects is -1 follows nothing. While a key has
// moved and its slot not, each try is refused with ASK; afterwards the first is
// refused with MOVED, and one is served when the client has read the slots anew.
// What is refused was not executed.
func TestClusterClientOnASlotThatMoves(t *testing.T) {
	t.Parallel()
	ctx, c := t.Context(), serverstest.Cluster(t)

	const key = "{m}:n"
	open := func(redirects int) *redis.ClusterClient {
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: c.Addrs(), Password: c.Server.Target.Password, MaxRedirects: redirects,
		})
		t.Cleanup(func() { rdb.Close() })
		testkit.Succeeds(t, rdb.IncrBy(ctx, key, 1).Err()) // it knows the slots from here on
		return rdb
	}

	// One asks nothing meanwhile: who is told ASK reads the slots anew in the
	// background, and may be in time.
	follows, stays, asksNothing := open(0), open(-1), open(-1)
	end := moveSlot(t, c, key)

	for range 3 {
		if err := stays.Incr(ctx, key).Err(); err == nil || !strings.HasPrefix(err.Error(), "ASK ") {
			t.Errorf("MaxRedirects -1, while the slot moves: %v; want ASK", err)
		}
	}

	// The three clients have added 3 before, and what was refused added nothing.
	if n, err := follows.Incr(ctx, key).Result(); n != 4 || err != nil {
		t.Errorf("the default, while the slot moves: %d, %v; want 4", n, err)
	}

	end()
	err := asksNothing.Incr(ctx, key).Err()
	tries, began := 1, time.Now()
	for ; err != nil && strings.HasPrefix(err.Error(), "MOVED ") &&
		time.Since(began) < time.Minute; tries++ {
		time.Sleep(10 * time.Millisecond)
		err = asksNothing.Incr(ctx, key).Err()
	}

	t.Logf("MaxRedirects -1, once the slot has moved: served at try %d, after %s",
		tries, time.Since(began))
	n, again := asksNothing.Get(ctx, key).Int()
	if tries == 1 || err != nil || n != 5 || again != nil {
		t.Errorf("served at try %d: %v; then it is %d, %v; want one MOVED at least, and 5",
			tries, err, n, again)
	}
}

// moveSlot moves a key, all that its slot has, to another master as redis-cli --cluster
// reshard does. What it returns ends that: the other master serves the slot from then on.
//
// Source: redis.io, cluster specification, "Live reconfiguration".
func moveSlot(t *testing.T, c *servers.Cluster, key string) (end func()) {
	masters := c.Server.Cluster().Masters()
	from, to, slot := c.Server.Master(key), masters[0], redisconn.Slot(key)
	if to.Addr == from.Addr {
		to = masters[1]
	}

	do := func(node redisconn.Target, args ...any) string {
		conn := testkit.Must(redisconn.To(node).Dial(t.Context()))(t)
		defer conn.Close()
		return testkit.Must(conn.Do(t.Context(), args...).Text())(t)
	}

	id := do(to, "cluster", "myid")
	do(to, "cluster", "setslot", slot, "importing", do(from, "cluster", "myid"))
	do(from, "cluster", "setslot", slot, "migrating", id)
	host, port, _ := net.SplitHostPort(to.Addr)
	do(from, "migrate", host, port, key, 0, time.Minute.Milliseconds(), "auth", to.Password)

	return func() {
		for _, node := range []redisconn.Target{
			to, from, // in this order there is a master at all times
		} {
			do(node, "cluster", "setslot", slot, "node", id)
		}
	}
}
