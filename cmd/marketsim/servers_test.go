package main

import (
	"bytes"
	"encoding/csv"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/testkit"
)

// TestUsageOfServers: what servers cannot be compared is refused before any is started.
func TestUsageOfServers(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "redis-server")
	testkit.Succeeds(t, os.WriteFile(script, nil, 0o600))

	for says, args := range map[string]string{
		`--server "redis": want NAME=PATH, such as valkey=`:        "--server redis",
		`--server "redis=": want NAME=PATH`:                        "--server redis=",
		`--server "a#2=sh": want NAME=PATH`:                        "--server a#2=sh",
		`--server "a=true": want NAME=PATH, such as valkey=`:       "--server a=sh --server a=true",
		`--server a: exec: "no-such-server": executable file not`:  "--server a=no-such-server",
		"permission denied: is it installed?":                      "--server a=" + script,
		"--redis names your server and --server a=sh starts other": "--redis redis://localhost:1 --server a=sh",
		"--backend embedded and --server a=sh: servers of":         "--backend embedded --server a=sh",
		"--keep leaves one market on a server that outlives":       "--server a=sh --keep",
	} {
		marketsim(t, append([]string{"run", "lua"}, strings.Fields(args)...)...).
			exits(t, exitUsage).says(t, says)
	}

	marketsim(t, "sweep", "lua", "--axis", "hot=1", "--server", "a=sh").exits(t, exitUsage).
		says(t, "unknown flag: --server")
	marketsim(t, short("run", "lua", "--server", "a=true")...).exits(t, exitEnvironment).
		says(t, "server a: no server could be started", "ended as soon as it was started")
}

// TestServersAreCompared: each server has its rows in each round, and the stored run says
// which server is which.
func TestServersAreCompared(t *testing.T) {
	t.Parallel()
	testkit.Local(t)
	redis := testkit.Must(process.Find("redis-server", "redis-server", "valkey-server"))(t)
	lru := filepath.Join(t.TempDir(), "lru-server")
	script := "#!/bin/sh\nexec " + redis + " \"$@\" --maxmemory-policy allkeys-lru\n"
	testkit.Succeeds(t, os.WriteFile(lru, []byte(script), 0o700))

	dir := filepath.Join(t.TempDir(), "out")
	o := marketsim(t, "compare", "fine", "lua", "--mix", "1x1",
		"--duration", "20ms", "--warmup", "0s", "--trials", "8",
		"--server", "plain="+redis, "--server", "lru="+lru, "--out", dir).exits(t, exitFine)
	o.says(t, "8 rounds of 6 rows", "server plain: private ", "server lru: private ",
		"fine on lru", "lua on plain", "fine on plain, the same again", "Configuration of lru: ")

	run := parse(t, read(t, filepath.Join(dir, runFile)))
	rows := map[string]int{}
	for _, r := range run.Rows {
		rows[r.Server]++
	}
	if rows["plain"] != 24 || rows["lru"] != 24 || len(run.Rows) != 48 {
		t.Errorf("rows %v of %d", rows, len(run.Rows))
	}
	named := run.Manifest.Servers
	if len(named) != 2 || named[0].Name != "plain" ||
		named[1].Config["maxmemory-policy"] != "allkeys-lru" {
		t.Errorf("servers %+v", named)
	}
	if !strings.Contains(run.Manifest.Command, "--server plain="+redis+" --server lru="+lru) {
		t.Errorf("the command is not what was typed: %s", run.Manifest.Command)
	}

	// A report of it, and what other programs read, name the server.
	records := testkit.Must(csv.NewReader(strings.NewReader(
		marketsim(t, "report", dir, "--format", "csv").exits(t, exitFine).stdout)).ReadAll())(t)
	column := slices.Index(records[0], "on_server")
	if column < 0 || len(records) != 49 || records[1][column] != run.Rows[0].Server {
		t.Errorf("column %d of %q", column, records[:2])
	}
	lines := marketsim(t, "report", dir, "--format", "gobench").exits(t, exitFine).stdout
	ofLRU := 0
	for reader := benchfmt.NewReader(bytes.NewBufferString(lines), "run"); reader.Scan(); {
		r, is := reader.Result().(*benchfmt.Result)
		if is && strings.Contains(string(r.Name), "/server=lru") {
			ofLRU++
		}
	}
	if ofLRU == 0 {
		t.Errorf("no benchmark is of lru:\n%s", lines)
	}
}

// TestRowsGoToTheirServer: the market of a row is on the server that it names.
func TestRowsGoToTheirServer(t *testing.T) {
	on := &running{locks: new(servers.Locks)}
	for _, name := range []string{"a", "b"} {
		server := backend.NewServer(backend.OriginLocal,
			redisconn.Target{Network: "tcp", Addr: name + ":1"}, name, nil)
		on.markets = append(on.markets, marketServer{name: name, Server: server})
	}
	for _, m := range on.markets {
		o := on.optionsOf(new(plan), result.Point{Strategy: "lua", Server: m.name})
		if !reflect.DeepEqual(o.Servers.Market, m.Dialer("")) {
			t.Errorf("rows on %s go to %+v", m.name, o.Servers.Market)
		}
	}
}
