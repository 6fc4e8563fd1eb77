package main

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/testkit"
)

//go:generate go test -run ^TestTwoFaults$ -timeout 0 -update

// twoFaultsPath is where is stored what searches find with two faults that find nothing with
// one, in every order of the requests.
const twoFaultsPath = "../../results/explored/two-faults.json"

var withinEach = flag.Duration("within", 30*time.Minute,
	"with -run '^TestTwoFaults$' -update: how long each scheme is searched")

// notRun is why a search with two faults has not been made.
const notRun = "not run yet"

// TestTwoFaults: what is stored has each search that finds nothing with one fault, and finds the
// same when it is made again: of those that are short all with MARKETSIM_EXPLORE, else one. With
// -update those are made that have not been, or whose schemes MARKETSIM_EXPLORE names.
func TestTwoFaults(t *testing.T) {
	t.Parallel()
	withOne := testkit.Must(loadOnly[*findings.Explorations](
		filepath.Split("../../results/explored/explored.json"),
	))(t)
	s := twoFaults{
		path:   twoFaultsPath,
		within: *withinEach,
		search: func(words []string) ([]findings.Exploration, error) { return inProcess(t, words) },
	}
	if *update {
		testkit.Succeeds(t,
			s.update(withOne.Searches, strings.Split(os.Getenv("MARKETSIM_EXPLORE"), ",")))
	}

	stored := testkit.Must(s.read())(t)
	got, want := named(stored.Searches), named(unharmed(withOne.Searches))
	if !slices.Equal(got, want) {
		t.Errorf("stored are %q, and nothing is found with one fault in %q: go generate ./results",
			got, want)
	}
	again := 0
	for _, e := range stored.Searches {
		const few = 500 // schedules
		if e.Why != "" || e.Stopped != "" || e.Schedules > few ||
			again > 0 && os.Getenv("MARKETSIM_EXPLORE") == "" {
			continue
		}
		again++
		found := testkit.Must(s.search(s.words(e, time.Hour)))(t)[0]
		found.Merged = e.Merged // see storedSearch.compare
		if !reflect.DeepEqual(found, e) {
			t.Errorf("found %+v, and %+v is stored", found, e)
		}
	}
	if again == 0 {
		t.Error("no search is short enough to be made again")
	}
}

// TestTwoFaultsEndInTime: a scheme's searches share its time, the shortest first; what has no
// time any more is not run, and is the next time. What has been searched is not searched again.
func TestTwoFaultsEndInTime(t *testing.T) {
	one := func(program string, schedules int) findings.Exploration {
		e := findings.Exploration{Scheme: "mine", Program: program}
		e.Complete, e.Schedules = true, schedules
		return e
	}
	withOne := []findings.Exploration{one("long", 300), one("short", 100), one("middle", 200)}

	// What finds harm with one fault is not searched with two: it must not turn up.
	harmed := one("harmed", 1)
	harmed.Harm = "sold twice"
	withOne = append(withOne, harmed)

	var searched []string
	s := twoFaults{path: filepath.Join(t.TempDir(), "two.json"), within: time.Hour}
	s.search = func(words []string) ([]findings.Exploration, error) {
		e := findings.Exploration{Scheme: "mine", Program: words[len(words)-2]}
		e.Complete = true
		searched = append(searched, e.Program)
		if e.Program == "middle" {
			e.Complete, e.Stopped = false, search.OutOfTime
			s.within = 0
		}
		return []findings.Exploration{e}, nil
	}
	s.left = func(time.Time) time.Duration { return s.within }

	for _, want := range []string{
		"long: " + notRun + ", short: , middle: ", "long: , short: , middle: ",
	} {
		testkit.Succeeds(t, s.update(withOne, nil))
		var got []string
		for _, e := range testkit.Must(s.read())(t).Searches {
			got = append(got, e.Program+": "+e.Why)
			if e.Program == "middle" && e.Stopped != "the 60 minutes that it was given" {
				t.Errorf("it was stopped by %q", e.Stopped)
			}
		}

		if is := strings.Join(got, ", "); is != want {
			t.Errorf("stored %s, want %s", is, want)
		}
		s.within = time.Hour
	}

	if want := []string{"short", "middle", "long"}; !slices.Equal(searched, want) {
		t.Errorf("searched %q, want %q", searched, want)
	}
}

// twoFaults makes searches with two faults, and stores each when it has ended.
type twoFaults struct {
	path   string
	within time.Duration // for each scheme
	search func(words []string) ([]findings.Exploration, error)
	left   func(began time.Time) time.Duration // of a scheme's time; nil: by the clock

	mu sync.Mutex // held while the file is written
}

// unharmed are the searches that find nothing in every order of the requests.
func unharmed(all []findings.Exploration) []findings.Exploration {
	return slices.DeleteFunc(slices.Clone(all), func(e findings.Exploration) bool {
		return e.Why != "" || e.Harm != "" || !e.Complete
	})
}

// named are searches by their schemes and programs.
func named(all []findings.Exploration) (names []string) {
	for _, e := range all {
		names = append(names, e.Scheme+" "+e.Program)
	}
	return names
}

func (s *twoFaults) read() (*findings.Explorations, error) {
	file, err := os.Open(s.path)
	if err != nil {
		return nil, fmt.Errorf("read what was explored with two faults: %w", err)
	}
	defer file.Close()
	return findings.ReadExplorations(file)
}

// words are those of the command that makes a search.
func (s *twoFaults) words(e findings.Exploration, within time.Duration) []string {
	return []string{
		"explore", "--faults", "2", "--format", asJSON,
		"--within", within.String(), "--program", e.Program, e.Scheme,
	}
}

// update makes the searches that are not stored yet, and those of the schemes that are named.
func (s *twoFaults) update(withOne []findings.Exploration, again []string) error {
	known := map[string]findings.Exploration{}
	if stored, err := s.read(); err == nil { // else nothing is stored yet
		for i, name := range named(stored.Searches) {
			known[name] = stored.Searches[i]
		}
	}

	res := &findings.Explorations{Schema: findings.ExplorationsSchema, Version: version()}
	var schemes []string
	perScheme := map[string][]int{} // by scheme: the searches to make, in res
	wanted := unharmed(withOne)
	for i, name := range named(wanted) {
		e, is := known[name]
		if !is || e.Why != "" || slices.Contains(again, e.Scheme) {
			e = findings.Exploration{Scheme: wanted[i].Scheme, Program: wanted[i].Program, Why: notRun}
			schemes = append(schemes, e.Scheme)
			perScheme[e.Scheme] = append(perScheme[e.Scheme], i)
		}
		res.Searches = append(res.Searches, e)
	}
	if err := s.store(res); err != nil {
		return err
	}

	running := new(errgroup.Group)
	running.SetLimit(runtime.NumCPU())
	for _, scheme := range slices.Compact(schemes) { // stored scheme by scheme
		searches := perScheme[scheme]
		// What takes few schedules with one fault takes the fewest with two.
		slices.SortStableFunc(searches, func(a, b int) int {
			return cmp.Compare(wanted[a].Schedules, wanted[b].Schedules)
		})
		running.Go(func() error { return s.scheme(res, searches) })
	}
	return running.Wait()
}

// scheme makes some searches of one scheme, one after the other, as long as it has time.
func (s *twoFaults) scheme(res *findings.Explorations, searches []int) error {
	left := s.left
	if left == nil {
		left = func(began time.Time) time.Duration { return s.within - time.Since(began) }
	}
	began := time.Now()
	for _, i := range searches {
		within := left(began).Round(time.Second)
		if within <= 0 {
			return nil // they stay not run
		}

		found, err := s.search(s.words(res.Searches[i], within))
		if err != nil {
			return err
		}
		if found[0].Stopped == search.OutOfTime {
			found[0].Stopped = fmt.Sprintf("the %.0f minutes that it was given", within.Minutes())
		}
		s.mu.Lock()
		res.Searches[i] = found[0]
		err = s.store(res)
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *twoFaults) store(res *findings.Explorations) error {
	return store(s.path, true, res.Write)
}
