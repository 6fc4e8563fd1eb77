package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/history"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market"
)

// recorded makes a history in which item 1 is sold to this many buyers, each of whom pays.
func recorded(t *testing.T, dir string, buyers ...market.UserID) {
	t.Helper()
	begun := time.Now()
	w, err := history.Create(dir, history.Header{
		Run:      "test:",
		Subject:  "hand",
		Mix:      "1x2",
		Accounts: 3,
		Funds:    100,
		Began:    begun,
	})
	testkit.Succeeds(t, err)

	r := testkit.Must(w.Worker())(t)
	at := func(ms int) time.Time { return begun.Add(time.Duration(ms) * time.Millisecond) }
	r.Minted(at(1), at(2), 1, 1, nil)
	r.Listed(at(3), at(4), market.Listing{Item: 1, Seller: 1, Price: 40}, nil)

	final := market.Snapshot{
		Funds:     map[market.UserID]int64{1: 100, 2: 100, 3: 100},
		Inventory: map[market.UserID]map[market.ItemID]bool{1: {}},
		Listings:  map[string]int64{},
	}
	for item := market.ItemID(2); item <= market.BatchSize; item++ {
		final.Inventory[1][item] = true
	}

	for i, buyer := range buyers {
		r.Purchased(at(5+2*i), at(6+2*i), market.Order{Item: 1, Seller: 1, Buyer: buyer, Price: 40}, nil)
		final.Funds[buyer] -= 40
		final.Funds[1] += 40
		final.Inventory[buyer] = map[market.ItemID]bool{1: true}
	}
	testkit.Succeeds(t, w.Finish(final))
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "1-good"), filepath.Join(dir, "2-bad")
	recorded(t, good, 2)
	marketsim(t, "check", dir).exits(t, exitFine).
		says(t, good+"\nhand 1x2: LINEARIZABLE\n", "not checked: that a purchase changes")

	recorded(t, bad, 2, 3)
	marketsim(t, "check", dir).exits(t, exitViolation).says(t,
		"LINEARIZABLE", bad+"\nhand 1x2: VIOLATED\n",
		"sold by 1 to 3 for 40 coins (0.0", ": sold twice", "violation: the history of hand 1x2 in "+bad)
	o := marketsim(t, "check", dir, "--format", "json").exits(t, exitViolation)
	var verdicts []historyVerdict
	err := json.Unmarshal([]byte(o.stdout), &verdicts)
	if err != nil || len(verdicts) != 2 || verdicts[1].Answer != history.Violated {
		t.Errorf("%v: %s", err, o.stdout)
	}

	damage(t, good)
	marketsim(t, "check", dir).exits(t, exitViolation).
		says(t, "VIOLATED", good, "cut short", "gets no verdict").silent(t, "LINEARIZABLE")
	marketsim(t, "check", good).exits(t, exitUsage).
		says(t, "history.jsonl, line 5").silent(t, "connection to Redis")
}

// TestCheckShowsNoEscapeCodes that a history holds.
func TestCheckShowsNoEscapeCodes(t *testing.T) {
	dir := t.TempDir()
	recorded(t, dir, 2, 3)
	path := filepath.Join(dir, "history.jsonl")
	text := strings.ReplaceAll(read(t, path), `"hand"`, "\"\\u001b[2J\u009b31mhand\"")
	testkit.Succeeds(t, os.WriteFile(path, []byte(text), 0o666))
	for _, format := range []string{"text", "json"} {
		o := marketsim(t, "check", dir, "--format", format).exits(t, exitViolation).says(t, "31mhand")
		if strings.ContainsAny(o.stdout+o.stderr, "\x1b\u009b") {
			t.Errorf("%s: %q", format, o.stdout+o.stderr)
		}
	}
}

// damage cuts a history short in the middle of a line.
func damage(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "history.jsonl")
	testkit.Succeeds(t, os.Truncate(path, int64(len(read(t, path)))-5))
}

func TestCheckOutOfTime(t *testing.T) {
	dir := t.TempDir()
	recorded(t, dir, 2)
	marketsim(t, "check", dir, "--timeout", "1ns").exits(t, exitEnvironment).
		says(t, "UNKNOWN", "is not decided; give more --timeout")
}

// TestRunHistory: one row is recorded into the folder, several into folders of their own.
func TestRunHistory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, several := filepath.Join(dir, "one"), filepath.Join(dir, "several")
	marketsim(t, short("run", "--strategy", "fine", "--mix", "2x2", "--backend", "embedded",
		"--history", one)...).
		exits(t, exitFine).says(t, "with: marketsim check "+one+"\n")

	marketsim(t, short("run", "--strategy", "watch,fine:set-px:ttl=1s", "--mix", "1x1",
		"--backend", "embedded", "--history", several)...).exits(t, exitFine)
	o := marketsim(t, "check", dir).exits(t, exitFine).says(t, one+"\nfine 2x2: LINEARIZABLE",
		"01-watch-1x1\nwatch 1x1: LINEARIZABLE",
		"02-fine_set-px_ttl=1s-1x1\nfine:set-px:ttl=1s 1x1: LINEARIZABLE")
	if n := strings.Count(o.stdout, "LINEARIZABLE"); n != 3 {
		t.Errorf("%d verdicts", n)
	}

	marketsim(t, short("run", "--strategy", "fine", "--backend", "embedded", "--history", dir)...).
		exits(t, exitUsage).says(t, "--history: ", "folder already holds a history: "+dir)
}
