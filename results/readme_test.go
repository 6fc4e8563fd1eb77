package results

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/view"
)

// ways are the rows of README's picture and what it calls them: the book's
// three ways first.
var ways = [][2]string{
	{"watch", "WATCH of the whole market"},
	{"watch-item", "WATCH of the item alone"},
	{"coarse:set-px", "one lock for the whole market"},
	{"fine", "a lock per item, as in the book"},
	{"fine:set-px", "a lock per item that expires"},
	{"lua", "one script"},
	{"lua-shared", "one script, one connection shared by all"},
}

// TestREADME: its first screen has the question, three facts and a picture of what is
// stored, and the commands; and a newcomer reads it to its end. With -update the facts
// and the picture are written.
func TestREADME(t *testing.T) {
	folders := glob(t, "strategies-*")
	run, picture := readRun(t, folders[len(folders)-1]), "../docs/pictures/strategies.svg"
	var drawn bytes.Buffer
	testkit.Succeeds(t, view.SVG(&drawn, inWords(t, run)))
	rewrite(t, picture, text(t, picture), drawn.String())
	inPage(t, "../README.md", "facts", scripted(t, run)+paused(t)+judgedLocks(t))

	lines := strings.SplitAfter(text(t, "../README.md"), "\n")
	screen := strings.Join(lines[:20], "")
	if !regexp.MustCompile(`(?s)\?\*\*.*<!-- facts -->.*\.svg.*git clone.*reproduce.*go test`).MatchString(screen) {
		t.Errorf("the first screen of README.md lacks something:\n%s", screen)
	}
	if n := len(lines) - 1; n > 130 {
		t.Errorf("README.md has %d lines, and 130 are enough: the rest belongs to docs/", n)
	}
}

// inWords is the figure of a run's throughput with the ways alone, for readers
// who do not know their names.
func inWords(t *testing.T, run *result.Run) view.Figure {
	figures, m := view.Figures(run), run.Manifest
	f := figures[slices.IndexFunc(figures, func(f view.Figure) bool { return f.Name == "throughput" })]
	f.Title = "Purchases a second, by how buyers keep out of each other's way"
	f.X.Label = fmt.Sprintf("median of %d rounds with its 95%% interval; Redis %s, %d cores",
		m.Config.Trials, m.ServerVersion, m.CPUs)
	for i, p := range f.Panels {
		f.Panels[i] = view.Panel{Title: strings.Replace(p.Title, "x", " sellers and ", 1) + " buyers"}
		for _, way := range ways {
			at := slices.IndexFunc(p.Dots, func(d view.Dot) bool { return d.Label == way[0] })
			if at < 0 {
				t.Fatalf("the run has no %s at %s", way[0], p.Title)
			}
			p.Dots[at].Label = way[1]
			f.Panels[i].Dots = append(f.Panels[i].Dots, p.Dots[at])
		}
	}
	return f
}

// scripted says how many times the purchases of two locks one script makes, in one run.
func scripted(t *testing.T, run *result.Run) string {
	points := run.Manifest.Config.Points
	i := slices.IndexFunc(points, func(p result.Point) bool { return p.Strategy == "lua" })
	// All others are compared with the first.
	run.Manifest.Config.Points = slices.Insert(points, 0, points[i])
	times := func(lock, place string) string {
		c, ok := between(run, "lua", lock, place)
		if !ok || c.Verdict != compare.Faster {
			t.Fatalf("README says that a script is faster than %s at %s, and it is %s", lock, place, c.Verdict)
		}
		return fmt.Sprintf("%.3g", c.Ratio)
	}
	return fmt.Sprintf("- **One Lua script makes %s times the purchases of a lock per item, and %s times those of one "+
		"lock for the whole market**,\n  with 5 sellers and 5 buyers; with 50 and 50 it makes %s and %s times as many "+
		"(ratios within a round, medians of %d rounds).\n", times("fine:set-px", "5x5"), times("coarse:set-px", "5x5"),
		times("fine:set-px", "50x50"), times("coarse:set-px", "50x50"), run.Manifest.Config.Trials)
}

// paused says which schemes sell an item twice under a holder that pauses, and
// which do no harm.
func paused(t *testing.T) string {
	told := map[verify.Harm][]string{}
	for _, s := range [][2]string{
		{"redsync", "redsync"}, {"redislock", "redislock"}, {"zookeeper", "ZooKeeper"}, {"etcd", "etcd"},
		{"redlock", "Redlock"}, {"redisson", "Redisson's scheme"}, {"set-px", "SET NX PX"},
		{"lua", "one script"}, {"watch", "WATCH"}, {"set-px:fencing=token", "a lock with a token that the write requires"},
	} {
		harm := finding(t, readFaults(t), "pause", s[0]).Harm
		told[harm] = append(told[harm], s[1])
	}
	return fmt.Sprintf("- **A lock that expires sells an item twice when its holder pauses just before it writes**. "+
		"Seen with\n  %s; not seen with %s.\n",
		and(told[verify.SoldTwice]), and(told[verify.NoHarm]))
}
