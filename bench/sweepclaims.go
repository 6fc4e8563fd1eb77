package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/bench/sweep"
	"github.com/marketsim/marketsim/strategies"
)

// Tolerances and demands, decided before any sweep was measured. The papers measured and simulated other systems: what
// is asked for is the direction of what they found.
const (
	half         = 0.5  // "no lock is best in more than half of the workloads"
	harmful      = 0.85 // "harms": at most this part of the purchases/s of another lock
	fewestLocks  = 3    // that a sweep compares, for claims about all locks
	fewestLoads  = 4    // and points
	fewestCounts = 3    // along clients, for "with load"
	scarce       = 0.6  // of the machine's CPUs are busy where "resources are scarce", at least
	plentiful    = 0.3  // and where they are plentiful, at most
)

// A sweepClaim is a claim about which of several strategies is best where, for a sweep to be judged by. It fills in what
// was found. An error says why the claim cannot be judged.
//
// Most are judged by what the intervals of all pairs say at once, and not round by round as [claim] is. Among locks that
// are alike chance makes another the best in each round, so that rounds alone would find that none is best in most
// workloads, and that the best changes.
type sweepClaim struct {
	text, published, tolerance string
	judge                      func(*result.Run, *result.Sweep, *result.Claim) error
}

// sweepClaims are the claims of the third part of results/reference/SOURCES.md, in its order. Their ids follow those of
// the second.
var sweepClaims = []sweepClaim{
	{
		text:      "no lock is the best in more than half of the workloads",
		published: "at most 50% of the workloads (19 locks, 36 applications)",
		tolerance: "no lock is the best at more than half of the points; where locks make no difference, each of them is",
		judge:     judgeBest,
	}, {
		text:      "each lock harms some workload",
		published: "each of 19 locks harms several of 36 applications",
		tolerance: "each lock makes at least 15% fewer purchases than another at one point or more",
		judge:     judgeHarm,
	}, {
		text:      "the best lock changes with load",
		published: "it does for several applications",
		tolerance: "at two numbers of clients no lock may be the best at both",
		judge:     judgeLoad,
	}, {
		text:      "resources decide between blocking and optimistic",
		published: "blocking is better where resources are used much, optimistic where they are used little",
		tolerance: "the best lock makes more purchases than the best watch without a hold, and fewer with the longest, with CPUs " +
			"60% busy or more there and 30% or less here",
		judge: judgeResources,
	},
}

// judgeSweep judges the claims that a sweep has what they need for.
func judgeSweep(run *result.Run) []result.Claim {
	found := sweep.Analyse(run)
	var all []result.Claim
	for i, c := range sweepClaims {
		out := result.Claim{
			ID: 1 + len(bookClaims) + len(backoffClaims) + i, Text: c.text, Published: c.published, Tolerance: c.tolerance,
			Verdict: result.NotJudged,
		}
		switch complete := len(run.Rounds()); {
		case run.Manifest.Backend == "embedded":
			out.Measured = notRedis
		case found == nil:
			out.Measured, out.Verdict = "not one round is complete", result.NotDecided
		case complete < run.Planned():
			out.Measured, out.Verdict = fmt.Sprintf("%d of %d rounds", complete, run.Planned()), result.NotDecided
		default:
			if err := c.judge(run, found, &out); err != nil {
				out.Measured, out.Verdict = "not judged: "+err.Error(), result.NotJudged
			}
		}
		all = append(all, out)
	}
	return all
}

// decide sets the verdict by what is surely so.
func decide(out *result.Claim, holds, doesNot bool) {
	out.Verdict = result.NotDecided
	if holds || doesNot {
		out.Holds, out.Verdict = &holds, result.DoesNot
		if holds {
			out.Verdict = result.Holds
		}
	}
}

// kindOf is how a strategy of a run keeps others out.
type kindOf int

const (
	otherwise  kindOf = iota
	blocking          // by a lock
	optimistic        // by WATCH
)

// kind tells by a strategy's name, which its specs begin with.
func kind(spec string) kindOf {
	name, _, _ := strings.Cut(spec, ":")
	for _, s := range strategies.All() {
		switch {
		case s.Name != name:
		case s.Lock != "":
			return blocking
		case name == "watch" || name == "watch-item":
			return optimistic
		}
	}
	return otherwise
}

// ofKind are the strategies of a run that are of a kind.
func ofKind(run *result.Run, k kindOf) []string {
	return slices.DeleteFunc(slices.Clone(run.Manifest.Config.Strategies), func(s string) bool { return kind(s) != k })
}

// locksOf are the locks of a run. The error says what it lacks for claims about all locks in all workloads.
func locksOf(run *result.Run, found *result.Sweep, locks, points int) ([]string, error) {
	all := ofKind(run, blocking)
	if len(all) < locks || len(found.Points) < points {
		return nil, fmt.Errorf("it takes %d strategies with a lock and %d points, and these are %d and %d", locks, points, len(all),
			len(found.Points))
	}
	for _, p := range found.Points {
		for _, m := range p.Strategies {
			if m.Problem != "" && slices.Contains(all, m.Strategy) {
				return nil, fmt.Errorf("%s %s %s", m.Strategy, p.Place, m.Problem)
			}
		}
	}
	return all, nil
}

// bestAt says whether a lock is known to be the best of some at a point: faster than each other or no different; and
// whether it may be: no other is known to be faster.
func bestAt(p result.SweepPoint, lock string, locks []string) (surely, maybe bool) {
	surely, maybe = true, true
	for _, other := range locks {
		if other == lock {
			continue
		}
		c, found := sweep.Between(p, lock, other)
		surely = surely && found && (c.Verdict == result.Faster || c.Verdict == result.NoDifference)
		maybe = maybe && c.Verdict != result.Slower
	}
	return surely, maybe
}

// countPoints is at how many points something is known of a lock among others, and at how many it may be so.
func countPoints(found *result.Sweep, lock string, locks []string,
	is func(p result.SweepPoint, lock string, locks []string) (surely, maybe bool),
) (least, most int) {
	for _, p := range found.Points {
		surely, maybe := is(p, lock, locks)
		if surely {
			least++
		}
		if maybe {
			most++
		}
	}
	return least, most
}

func judgeBest(run *result.Run, found *result.Sweep, out *result.Claim) error {
	locks, err := locksOf(run, found, fewestLocks, fewestLoads)
	if err != nil {
		return err
	}
	all := float64(len(found.Points))
	low, high := 0.0, 0.0
	leader := ""
	for _, lock := range locks {
		least, most := countPoints(found, lock, locks, bestAt)
		if leader == "" || float64(most)/all > high {
			leader = lock
		}
		low, high = max(low, float64(least)/all), max(high, float64(most)/all)
	}
	out.Low, out.High = &low, &high
	out.Measured = fmt.Sprintf("the one that is best most often is so at %.0f%% to %.0f%% of %d points; %s may be", 100*low, 100*high,
		len(found.Points), leader)
	decide(out, high <= half, low > half)
	return nil
}

func judgeHarm(run *result.Run, found *result.Sweep, out *result.Claim) error {
	locks, err := locksOf(run, found, fewestLocks, fewestLoads)
	if err != nil {
		return err
	}
	holds, doesNot := true, false
	low, high := float64(len(found.Points)), float64(len(found.Points))
	var words []string
	for _, lock := range locks {
		least, most := countPoints(found, lock, locks, harms)
		holds, doesNot = holds && least > 0, doesNot || most == 0
		low, high = min(low, float64(least)), min(high, float64(most))
		words = append(words, fmt.Sprintf("%s %s", lock, fromTo(least, most)))
	}
	out.Low, out.High = &low, &high
	out.Measured = fmt.Sprintf("of %d points, harmed by %s", len(found.Points), english.WordSeries(words, "and"))
	decide(out, holds, doesNot)
	return nil
}

// harms says whether a lock is known to harm the workload of a point, and whether it may.
func harms(p result.SweepPoint, lock string, locks []string) (surely, maybe bool) {
	for _, other := range locks {
		if other == lock {
			continue
		}
		c, _ := sweep.Between(p, lock, other)
		surely = surely || c.High != nil && *c.High <= harmful
		maybe = maybe || c.Low == nil || *c.Low <= harmful
	}
	return surely, maybe
}

// fromTo is a number that is known only within limits.
func fromTo(least, most int) string {
	if least == most {
		return fmt.Sprint(least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

func judgeLoad(run *result.Run, found *result.Sweep, out *result.Claim) error {
	locks, err := locksOf(run, found, 2, fewestCounts)
	if err != nil {
		return err
	}
	var lines []sweep.Line
	for _, l := range sweep.Lines(run.Manifest.Config) {
		if l.Axis == result.Clients && len(l.Values) >= fewestCounts {
			lines = append(lines, l)
		}
	}
	if len(lines) == 0 {
		return fmt.Errorf("it takes the axis clients with %d values or more", fewestCounts)
	}
	allSame := true
	for _, l := range lines {
		changed, same := changes(l, found.Points, locks)
		if changed != "" {
			out.Measured = changed
			decide(out, true, false)
			return nil
		}
		allSame = allSame && same != ""
		out.Measured = fmt.Sprintf("%s is the best with each number of clients", same)
	}
	if !allSame {
		out.Measured = "no two numbers of clients are known to have another best lock"
	}
	decide(out, false, allSame)
	return nil
}

// changes says in words where along a line the best lock is known to be another, or else names a lock that is known to be
// the best all along. Both may be empty.
func changes(l sweep.Line, points []result.SweepPoint, locks []string) (changed, same string) {
	may := make([][]string, len(l.Points)) // be the best
	surely := map[string]int{}
	for i, at := range l.Points {
		for _, lock := range locks {
			sure, maybe := bestAt(points[at], lock, locks)
			if maybe {
				may[i] = append(may[i], lock)
			}
			if sure {
				surely[lock]++
			}
		}
	}
	for i := range may {
		for j := i + 1; j < len(may); j++ {
			both := slices.ContainsFunc(may[i], func(lock string) bool { return slices.Contains(may[j], lock) })
			if !both && len(may[i]) > 0 && len(may[j]) > 0 {
				return fmt.Sprintf("the best is %s with %s, and %s with %s", english.WordSeries(may[i], "or"),
					result.Clients.Say(l.Values[i]), english.WordSeries(may[j], "or"), result.Clients.Say(l.Values[j])), ""
			}
		}
	}
	for _, lock := range locks {
		if surely[lock] == len(l.Points) {
			return "", lock
		}
	}
	return "", ""
}

// judgeResources is judged round by round, as [claim] is: it compares two kinds, each by its best.
func judgeResources(run *result.Run, _ *result.Sweep, out *result.Claim) error {
	c := run.Manifest.Config
	locks, watches := ofKind(run, blocking), ofKind(run, optimistic)
	if len(locks) == 0 || len(watches) == 0 {
		return errors.New("it takes a strategy with a lock, and watch or watch-item")
	}
	var held sweep.Line // along hold, at the largest value of the other axis
	for _, l := range sweep.Lines(c) {
		if l.Axis == result.Hold {
			held = l
		}
	}
	if len(held.Values) < 2 || held.Values[0] != 0 {
		return errors.New("it takes the axis hold, from 0")
	}
	points := c.Points()
	without, longest := points[held.Points[0]], points[held.Points[len(held.Points)-1]]
	judged := claim{
		measure: func(r round) (finding, error) {
			blocked, err := r.better(without, locks, watches, run.Manifest.CPUs, func(busy float64) bool { return busy >= scarce })
			if err != nil {
				return finding{}, err
			}
			freed, err := r.better(longest, watches, locks, run.Manifest.CPUs, func(busy float64) bool { return busy <= plentiful })
			return finding{values: []float64{blocked, freed}, number: min(blocked, freed)}, err
		},
		words: func(times []float64) string {
			return fmt.Sprintf("blocking makes %s times the purchases of optimistic without a hold, and optimistic %s times those of "+
				"blocking with %s", short(times[0]), short(times[1]), result.Hold.Say(longest.HoldMS))
		},
		number: "at least %s times",
		holds:  func(least float64) bool { return least > 1 },
	}
	judged.judge(run.Rounds(), run.Planned(), out)
	return nil
}

// better is how many times the purchases/s of the best of others the best of some makes at a point of a round. The error
// says so if one of them must not be judged, or if the machine was not as busy there as it has to be.
func (r round) better(p result.Point, some, others []string, cpus int, fits func(busy float64) bool) (float64, error) {
	most := func(of []string) (float64, error) {
		best := 0.0
		for _, strategy := range of {
			name := result.RowName(strategy, p.Mix, p.Workload, 0)
			i := slices.IndexFunc(r, func(row result.Row) bool { return row.Name() == name })
			if i < 0 {
				return 0, fmt.Errorf("not judged: %s was not measured", name)
			}
			if problem := r[i].Problem(); problem != "" {
				return 0, fmt.Errorf("not judged: %s %s", name, problem)
			}
			busy, known := machineBusy(r[i], cpus)
			if !known {
				return 0, fmt.Errorf("not judged: how busy the CPUs were in %s was not recorded", name)
			}
			if !fits(busy) {
				return 0, fmt.Errorf("not judged: the CPUs were %.0f%% busy in %s", 100*busy, name)
			}
			best = max(best, r[i].PurchasesPerSecond)
		}
		return best, nil
	}
	a, err := most(some)
	if err != nil {
		return 0, err
	}
	b, err := most(others)
	switch {
	case err != nil:
		return 0, err
	case b == 0 && a == 0:
		return 0, fmt.Errorf("not judged: nothing was bought at %s", p)
	case b == 0:
		return fromNothing, nil
	}
	return min(a/b, fromNothing), nil
}

// machineBusy is the part of the machine's CPUs that this process and the market's server used in a row.
func machineBusy(r result.Row, cpus int) (busy float64, known bool) {
	if r.Client == nil || r.Cost == nil || r.Cost.ServerUS == nil || cpus == 0 {
		return 0, false
	}
	return r.Client.CPU + *r.Cost.ServerUS*r.PurchasesPerSecond/1e6/float64(cpus), true
}
