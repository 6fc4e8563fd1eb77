package results

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/view"
)

// A named is what is stored under a name, in a newcomer's words.
type named struct{ name, words string }

// ways are the rows of README's picture: the book's three ways first.
var ways = []named{
	{"watch-item", "WATCH of the item alone"},
	{"coarse:set-px", "one lock for the whole market"},
	{"fine", "a lock per item, as in the book"},
	{"fine:set-px", "a lock per item that expires"},
	{"lua", "one script"},
	{"lua-shared", "one script, one connection shared by all"},
}

// strategiesRun is the newest run that README's picture and its first fact are taken from.
func strategiesRun(t *testing.T) *result.Run {
	t.Helper()
	folders := glob(t, "strategies-*")
	return readRun(t, folders[len(folders)-1])
}

// TestPicture draws README's picture again. With -update it writes it.
func TestPicture(t *testing.T) {
	run, path := strategiesRun(t), "../docs/pictures/strategies.svg"
	figures := view.Figures(run)
	i := slices.IndexFunc(figures, func(f view.Figure) bool { return f.Name == "throughput" })
	if i < 0 {
		t.Fatal("the run has no figure of its throughput")
	}
	f, m := figures[i], run.Manifest
	f.Title = "Purchases a second, by how buyers keep out of each other's way"
	f.X.Label = fmt.Sprintf("median of %d rounds with its 95%% interval; Redis %s, %d cores",
		m.Config.Trials, m.ServerVersion, m.CPUs)
	for i, p := range f.Panels {
		var sellers, buyers int
		if n, err := fmt.Sscanf(p.Title, "%dx%d", &sellers, &buyers); n != 2 {
			t.Fatalf("a panel is called %q: %v", p.Title, err)
		}
		f.Panels[i] = view.Panel{Title: fmt.Sprintf("%d sellers and %d buyers", sellers, buyers)}
		for _, way := range ways {
			at := slices.IndexFunc(p.Dots, func(d view.Dot) bool { return d.Label == way.name })
			if at < 0 {
				t.Fatalf("the run has no %s at %s", way.name, p.Title)
			}
			p.Dots[at].Label = way.words
			f.Panels[i].Dots = append(f.Panels[i].Dots, p.Dots[at])
		}
	}
	var drawn bytes.Buffer
	succeeds(t, view.SVG(&drawn, f))
	rewrite(t, path, text(t, path), drawn.String())
}

// TestFacts: the three facts at the head of README are those that are stored. With -update they are written there.
func TestFacts(t *testing.T) {
	inPage(t, "../README.md", "facts", scripted(t, strategiesRun(t))+paused(t, readFaults(t))+judgedLocks(t))
}

// scripted says how many times the purchases of two locks one script makes, in one run.
func scripted(t *testing.T, run *result.Run) string {
	points := run.Manifest.Config.Points
	i := slices.IndexFunc(points, func(p result.Point) bool { return p.Strategy == "lua" })
	points = slices.Insert(slices.Clone(points), 0, points[i]) // all others are compared with the first
	run.Manifest.Config.Points = points
	times := func(lock, place string) string {
		c, ok := between(run, "lua", lock, place)
		if !ok || c.Verdict != compare.Faster {
			t.Fatalf("README says that a script is faster than %s at %s, and it is %s", lock, place, c.Verdict)
		}
		if c.Ratio >= 10 {
			return fmt.Sprintf("%.0f", c.Ratio)
		}
		return fmt.Sprintf("%.1f", c.Ratio)
	}
	return fmt.Sprintf("- **One Lua script makes %s times the purchases of a lock per item, and %s times those of one "+
		"lock for the whole market**,\n  with 5 sellers and 5 buyers; with 50 and 50 it makes %s and %s times as many "+
		"(ratios within a round, medians of %d rounds).\n", times("fine:set-px", "5x5"), times("coarse:set-px", "5x5"),
		times("fine:set-px", "50x50"), times("coarse:set-px", "50x50"), run.Manifest.Config.Trials)
}

// paused says which schemes sell an item twice under a holder that pauses, and which do not.
func paused(t *testing.T, faults *verify.Faults) string {
	var twice, never []string
	for _, s := range []named{
		{"redsync", "redsync"}, {"redislock", "redislock"}, {"zookeeper", "ZooKeeper"}, {"etcd", "etcd"},
		{"redlock", "Redlock"}, {"redisson", "Redisson's scheme"}, {"set-px", "SET NX PX"},
		{"lua", "one script"}, {"watch", "WATCH"}, {"set-px:fencing=token", "a lock whose token the write compares"},
	} {
		switch f := finding(t, faults, "pause", s.name); f.Harm {
		case verify.SoldTwice:
			twice = append(twice, s.words)
		case verify.NoHarm:
			never = append(never, s.words)
		default:
			t.Errorf("README has no words for %q of %s", f.Harm, s.name)
		}
	}
	return fmt.Sprintf("- **A lock that expires sells an item twice when its holder pauses just before it writes**. "+
		"Seen with\n  %s; not with %s.\n", joined(t, twice), joined(t, never))
}

// judgedLocks says what was found of the locks of libraries in other languages.
func judgedLocks(t *testing.T) string {
	var kept, broken, outlived []string
	for _, path := range glob(t, "judged/*/explored.json") {
		library, _, _ := strings.Cut(judgedLibraries[filepath.Base(filepath.Dir(path))], " ")
		found := must(verify.ReadExplored(strings.NewReader(text(t, path))))(t)
		switch {
		case len(found.Promises) == 0 || library == "marketsim's": // a purchase, or the one that is wrong on purpose
			continue
		case len(found.Broken()) > 0:
			broken = append(broken, library)
		default:
			kept = append(kept, library)
		}
		if slices.ContainsFunc(found.Searches, func(e verify.Explored) bool { return e.Harm == verify.Outlived }) {
			outlived = append(outlived, library)
		}
	}
	if len(broken) > 0 || len(outlived) != len(kept) {
		t.Errorf("README says that all keep their promises and outlive their leases: %s do not, %s do", broken, outlived)
	}
	return fmt.Sprintf("- **A lock in any language is judged by one command**, `marketsim judge -- python3 my_lock.py`. "+
		"Within its bounds the locks of\n  %s break no promise; "+
		"each lets a client stopped for longer than its lease work beside the next.\n", joined(t, kept))
}

// joined is a list of two or more in words.
func joined(t *testing.T, all []string) string {
	t.Helper()
	last := len(all) - 1
	if last < 1 {
		t.Fatalf("README tells of several, and only %v is left", all)
	}
	return strings.Join(all[:last], ", ") + " and " + all[last]
}

// TestREADMEIsShort: a newcomer reads it to its end.
func TestREADMEIsShort(t *testing.T) {
	page := text(t, "../README.md")
	if n := strings.Count(page, "\n"); n > 130 {
		t.Errorf("README.md has %d lines, and 130 are enough: the rest belongs to docs/", n)
	}
	screen := strings.Join(strings.Split(page, "\n")[:20], "\n")
	for _, part := range []string{
		"?**", "<!-- facts -->", ".svg", "git clone", "go run ./cmd/marketsim reproduce", "go test ./...",
	} {
		if !strings.Contains(screen, part) {
			t.Errorf("the first 20 lines of README.md lack %q", part)
		}
	}
}
