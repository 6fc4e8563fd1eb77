package report

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/marketsim/marketsim/bench/compare"
	"github.com/marketsim/marketsim/bench/result"
)

// planted is a run of rows whose purchases/s are given by strategy, a number a round.
func planted(perSecond map[string][]float64) *result.Run {
	res := complete()
	res.Rows = nil
	c := &res.Manifest.Config
	c.Strategies, c.Mixes = nil, []string{"5x5"}
	for _, name := range []string{"a", "b", "c"} {
		rounds := perSecond[name]
		if rounds == nil {
			continue
		}
		c.Strategies, c.Trials = append(c.Strategies, name), len(rounds)
		for i, v := range rounds {
			r := measuredRow(name, 5, 5, int64(v*5)+10, int64(v*5), 0, 0.4)
			r.PurchasesPerSecond, r.Trial = v, i+1
			res.Rows = append(res.Rows, r)
		}
	}
	return res
}

// around are six rounds about a number, which spread by a tenth of it.
func around(v float64) []float64 {
	return []float64{v, v * 1.05, v * 0.95, v * 1.01, v * 0.99, v * 1.02}
}

// eachItsOwn is a run in which one way is ahead under each of two loads.
func eachItsOwn() *result.Run {
	res := planted(map[string][]float64{"a": around(1000), "b": around(310)})
	res.Manifest.Config.Mixes = []string{"1x1", "5x5"}
	for _, r := range slices.Clone(res.Rows) {
		r.Sellers, r.Buyers, r.Strategy = 1, 1, map[string]string{"a": "b", "b": "a"}[r.Strategy]
		res.Rows = append(res.Rows, r)
	}
	return res
}

func TestRowsInWords(t *testing.T) {
	failed := planted(map[string][]float64{"a": {1000}, "b": {100}, "c": {10}})
	failed.Rows[0].Audit.OK = false
	alone := planted(map[string][]float64{"a": {1000}})
	onEmbedded := planted(map[string][]float64{"a": around(1000), "b": around(100)})
	onEmbedded.Manifest.Backend = "embedded"
	short := planted(map[string][]float64{"a": around(1000), "b": around(100)})
	short.Rows = slices.DeleteFunc(short.Rows, func(r result.Row) bool { return r.Trial > 4 })
	retried := planted(map[string][]float64{"a": {1000}, "b": {100}})
	retried.Rows[1].Retries = retried.Rows[1].Bought * 74
	nothing := planted(map[string][]float64{"a": {1000}})
	nothing.Rows[0].Status = result.Interrupted
	for name, c := range map[string]struct {
		run  *result.Run
		want string
	}{
		"decided":      {planted(map[string][]float64{"a": around(1000), "b": around(310)}), "a is faster than b at 5x5: 3.2 times the purchases/s."},
		"three":        {planted(map[string][]float64{"a": around(1000), "b": around(310), "c": around(50)}), "a is the fastest at 5x5: 3.2 times the purchases/s of b and 20 times those of c."},
		"not decided":  {planted(map[string][]float64{"a": around(1000), "b": around(980)}), "Whether a or b is faster at 5x5 is not decided."},
		"two ahead":    {planted(map[string][]float64{"a": around(1000), "b": around(980), "c": around(50)}), "Whether a or b is the fastest at 5x5 is not decided, and c is slower."},
		"one between":  {planted(map[string][]float64{"a": around(1000), "b": {990, 400, 800, 500, 1100, 900}, "c": around(600)}), "Whether a or b is the fastest at 5x5 is not decided, and c is slower than a."},
		"each its own": {eachItsOwn(), "b is the fastest at 1x1, a at 5x5."},
		"one round":    {planted(map[string][]float64{"a": {1000}, "b": {310}}), "In this one round a made 3.2 times the purchases/s of b at 5x5."},
		"by chance":    {planted(map[string][]float64{"a": {1000}, "b": {980}}), "In this one round a and b made about the same purchases/s at 5x5."},
		"too few":      {planted(map[string][]float64{"a": {1000, 1001}, "b": {310, 311}}), "So few rounds give no interval, which takes 6: which way is faster is not decided."},
		"cut short":    {short, "The run ended after 4 of 6 rounds: which way is faster is not decided."},
		"audit failed": {failed, "The audit of a 5x5 failed: items or money went wrong, so speed counts for nothing. In this one round b made 10 times the purchases/s of c at 5x5."},
		"one way":      {alone, "In this one round a made 1,000 purchases/s at 5x5, each after 0.40 ms on average; there is no other way to compare it with."},
		"embedded":     {onEmbedded, "The embedded server is not Redis: its numbers do not say which way is faster there."},
		"retries":      {retried, "In this one round a made 10 times the purchases/s of b at 5x5; b took 74 retries a purchase at 5x5."},
		"nothing":      {nothing, "Not judged is a 5x5: it is interrupted. There is no other row."},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rowsMeaning(look(c.run)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestTablesInWords: the lines of the other tables.
func TestTablesInWords(t *testing.T) {
	several := costed()
	lua := several.Rows[1]
	lua.Strategy, lua.RoundTripsPerPurchase = "lua", 1
	cost, us := *lua.Cost, 91.2
	cost.ServerUS, cost.Aborted = &us, nil
	lua.Cost, lua.TimeMS = &cost, &result.Split{Rest: 0.44}
	lua.Fairness = &result.Fairness{Jain: 0.7, Fewest: 100, Most: 512}
	lua.Client = &result.Client{}
	several.Rows = append(several.Rows, lua)
	alike := costed()
	alike.Rows = alike.Rows[:1]
	for name, c := range map[string]struct{ got, want string }{
		"cost":           {costMeaning(look(several)), "In this one round a purchase cost the server 31 us with fine and 91 with lua at 5x5; it took 1 round trip with lua and 4.0 round trips with fine."},
		"cost of one":    {costMeaning(look(alike)), "In this one round a purchase cost the server 31 us with watch at 5x1; it took 27 round trips; 91% of the round trips of watch were in vain at 5x1."},
		"nothing costed": {costMeaning(look(&result.Run{Rows: []result.Row{{Strategy: "a", Status: result.Complete, Seconds: 1, Audit: result.Audit{Done: true, OK: true}}}})), "What a purchase costs was not recorded, or nothing was bought."},
		"time":           {timeMeaning(look(several)), "In this one round the largest part of a purchase's time at 5x5 went into holding locks with fine (50%); its own commands with lua (100%)."},
		"fairness":       {loadMeaning(look(several)), "In fine 5x5 the client's machine was the limit, not Redis. In this one round one buyer made 5.1 times the purchases of another with lua at 5x5."},
		"one buyer":      {loadMeaning(look(alike)), "In this one round a single buyer shares with nobody."},
		"tries":          {triesMeaning(look(complete())), "In this one round a purchase with watch took 41 tries at 5x5, and 99 of 100 at most 187."},
		"details":        {detailsMeaning(look(complete())), "In this one round waits reached 408 ms with watch at 5x5, 20 times the average there."},
		"table 6-1":      {reproduction(inRounds(9))[0].meaning, "watch takes 0.39 retries a purchase at 1x1 and 38 at 5x5 (in the book 3.0 and more than 268)."},
		"table 6-3":      {reproduction(inRounds(9))[2].meaning, "fine buys 33 times as much as watch and 3.3 times as much as coarse at 5x5 (in the book more than 185 and 5.4 times)."},
		"not measured":   {reproduction(partial())[0].meaning, "Nothing is compared with the book: coarse was not measured at 5x5, or may not be judged."},
		"claims":         {claimsMeaning(inRounds(9).Claims), "What the book says holds here, but for claims 4, 7 and 9. Not judged: claim 11."},
		"no claim":       {claimsMeaning(inRounds(4).Claims), "Nothing that the book says is decided here."},
		"comparison":     {comparisonMeaning(compared("fine", "coarse", "fine:poll=1ms", "watch").Comparisons), "Whether watch, fine or fine:poll=1ms is the fastest at 5x5 is not decided, and coarse is slower."},
		"one scenario":   {scenarioMeaning(everyVerdict().Findings[2:3]), "It does harm with set-px: sold twice; others were kept out until the lease ran out."},
		"a scenario":     {scenarioMeaning(everyVerdict().Findings[:10]), "set-px:expiry=pxat broke a promise. Harm (mostly sold twice) to 8 of the 9 it can happen to; not to watch."},
		"one scheme":     {harmMeaning([]result.Finding{{Subject: "a", Verdict: result.Verdict(result.SoldTwice)}, {Subject: "a", Verdict: result.Safe}})[0], "a comes to harm in 1 of 2 scenarios."},
		"no harm":        {scenarioMeaning(everyVerdict().Findings[20:30]), "No harm to any of the 10 it can happen to."},
	} {
		if c.got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, c.got, c.want)
		}
	}
}

// TestTwoDigits: numbers that a reader can keep in mind.
func TestTwoDigits(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{two(0.0441), "0.044"}, {two(0.444), "0.44"}, {two(3.21), "3.2"}, {two(9.96), "10"}, {two(32.4), "32"}, {two(365), "365"},
		{two(999.7), "1,000"}, {two(20357), "20,000"}, {two(0), "0"}, {two(1e300), "1e+300"}, {multiple(1.07), "1.07"},
		{multiple(1.2), "1.2"}, {span(0.055), "55 us"}, {span(0.44), "0.44 ms"}, {span(6300), "6.3 s"}, {span(0), "0 ms"},
		{listing([]string{"a"}), "a"}, {listing([]string{"a", "b", "c"}), "a, b and c"},
		{listing([]string{"a", "b", "c", "d", "e"}), "a, b and 3 others"}, {or([]string{"a", "b", "c"}), "a, b or c"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// drawnRun is any run: of some strategies under some mixes, in one round or several, with audits that fail, and with or
// without a comparison.
func drawnRun(t *rapid.T) *result.Run {
	res := complete()
	res.Rows = nil
	c := &res.Manifest.Config
	c.Strategies = []string{"a", "b", "c", "d"}[:rapid.IntRange(1, 4).Draw(t, "strategies")]
	c.Mixes = []string{"1x1", "5x5"}[:rapid.IntRange(1, 2).Draw(t, "mixes")]
	c.Trials = rapid.SampledFrom([]int{1, 3, 6, 9}).Draw(t, "rounds")
	measured := rapid.IntRange(1, c.Trials).Draw(t, "measured")
	if rapid.Bool().Draw(t, "all") {
		measured = c.Trials
	}
	for trial := 1; trial <= measured; trial++ {
		for _, name := range c.Strategies {
			for _, mix := range c.Mixes {
				workers := int(mix[0] - '0')
				v := rapid.Float64Range(100, 300).Draw(t, "purchases/s")
				if rapid.Bool().Draw(t, "far") {
					v *= float64(name[0]-'a'+1) * 3
				}
				r := measuredRow(name, workers, workers, int64(v*5), int64(v*5), rapid.Int64Range(0, 5000).Draw(t, "retries"), 1)
				r.PurchasesPerSecond, r.Trial = v, trial
				if rapid.IntRange(0, 20).Draw(t, "nothing") == 0 {
					r.Bought, r.PurchasesPerSecond, r.WaitMS = 0, 0, result.Latency{}
				}
				r.Audit.OK = rapid.IntRange(0, 40).Draw(t, "audit") > 0
				res.Rows = append(res.Rows, r)
			}
		}
	}
	if measured < c.Trials {
		res.Status = result.Interrupted
	}
	if margin := 0.05; rapid.Bool().Draw(t, "compared") && len(c.Strategies) > 1 {
		c.Margin = &margin
		res.Comparisons = compare.Rounds(res)
	}
	return res
}

var (
	fasterThan = regexp.MustCompile(`(\w) is faster than (\w) at ([^:]+): `)
	theFastest = regexp.MustCompile(`\b(\w) is the fastest at ([^:,]+): `)
	eachOwn    = regexp.MustCompile(`\b(\w) is the fastest at (\dx\d), (\w) at (\dx\d)`)
	andSlower  = regexp.MustCompile(`whether (.+) is the fastest at (.+) is not decided, and (.+) (?:is|are) slower[.;]`)
	behindOne  = regexp.MustCompile(`is the fastest at (.+) is not decided, and (.+) (?:is|are) slower than (\w)`)
	makesMore  = regexp.MustCompile(`\b(\w) makes [0-9.,]+ purchases/s at ([^ ,]+), and (\w) `)
	takesMore  = regexp.MustCompile(`purchase takes [0-9.,]+ round trips? with (\w) and [0-9.,]+ with (\w) at ([^ ;.]+)`)
	madeMore   = regexp.MustCompile(`(\w) made (the most purchases/s|[0-9.,]+(?: to [0-9.,]+)? times the purchases/s of)`)
)

// faster reports whether all rounds, or else the comparison, show that a way is faster than another under a mix.
func faster(res *result.Run, a, b, mix string) bool {
	for _, c := range res.Comparisons {
		if c.Mix == mix && (c.A == a && c.B == b || c.A == b && c.B == a) {
			return c.Verdict == map[bool]result.Compared{true: result.Faster, false: result.Slower}[c.A == a]
		}
	}
	return larger(res, a, b, mix, func(r result.Row) float64 { return r.PurchasesPerSecond })
}

// larger reports whether the interval of a number lies above that of another way.
func larger(res *result.Run, a, b, mix string, of func(result.Row) float64) bool {
	interval := func(name string) compare.Interval {
		var all []float64
		for _, r := range res.Rows {
			if r.Strategy == name && r.Mix().String() == mix && r.Audit.OK {
				all = append(all, of(r))
			}
		}
		return compare.Median(all)
	}
	x, y := interval(a), interval(b)
	return x.N == res.Planned() && y.N == res.Planned() && x.Known() && y.Known() && x.Low > y.High
}

// TestNothingUndecidedIsClaimed: whatever a run holds, no line says of a way that it is faster unless that is decided, or
// in one round unless it says so, and never of a way whose audit failed. An audit that failed is named first.
func TestNothingUndecidedIsClaimed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		res := drawnRun(t)
		failed := map[string]bool{}
		for _, r := range res.Rows {
			if !r.Audit.OK {
				failed[r.Strategy+" "+r.Mix().String()] = true
			}
		}
		d := Run(res)
		for _, s := range d.sections {
			if s.table != nil && s.meaning == "" {
				t.Fatalf("%s says nothing in words", s.title)
			}
			if n := len(wrap(inWords+s.meaning, Width)); n > mostLines {
				t.Fatalf("%d lines: %s", n, s.meaning)
			}
			checkClaims(t, res, failed, s.meaning)
		}
		said := Findings(res)
		for _, text := range said {
			checkClaims(t, res, failed, text)
		}
		if len(said) > mostFindings || !strings.HasSuffix(said[len(said)-1], ".") {
			t.Fatalf("findings: %q", said)
		}
		complete := slices.ContainsFunc(look(res).ways, func(w way) bool { return auditsFailed(w.rounds) > 0 })
		for _, text := range []string{said[0], d.sections[0].meaning} {
			if complete && !strings.HasPrefix(text, "The audit of ") {
				t.Fatalf("an audit that failed is not named first: %s", text)
			}
		}
	})
}

// checkClaims looks for what a text says about speed, and judges it by the rows.
func checkClaims(t *rapid.T, res *result.Run, failed map[string]bool, text string) {
	claim := func(a, b, mixes string) {
		for mix := range strings.SplitSeq(mixes, " and ") {
			if failed[a+" "+mix] || !faster(res, a, b, mix) {
				t.Fatalf("that %s is faster than %s at %s is not known: %s", a, b, mix, text)
			}
		}
	}
	for _, m := range fasterThan.FindAllStringSubmatch(text, -1) {
		claim(m[1], m[2], m[3])
	}
	fastest := func(name, mixes string) {
		for mix := range strings.SplitSeq(mixes, " and ") {
			for _, other := range res.Manifest.Config.Strategies {
				if other != name && !failed[other+" "+mix] && !idle(res, other, mix) {
					claim(name, other, mix)
				}
			}
		}
	}
	for _, m := range theFastest.FindAllStringSubmatch(text, -1) {
		fastest(m[1], m[2])
	}
	for _, m := range eachOwn.FindAllStringSubmatch(text, -1) {
		fastest(m[1], m[2])
		fastest(m[3], m[4])
	}
	for _, m := range andSlower.FindAllStringSubmatch(text, -1) {
		for _, a := range names(m[1]) {
			for _, b := range names(m[3]) {
				claim(a, b, m[2])
			}
		}
	}
	for _, m := range behindOne.FindAllStringSubmatch(text, -1) {
		for _, b := range names(m[2]) {
			claim(m[3], b, m[1])
		}
	}
	for _, m := range makesMore.FindAllStringSubmatch(text, -1) {
		claim(m[1], m[3], m[2])
	}
	for _, m := range takesMore.FindAllStringSubmatch(text, -1) {
		if !larger(res, m[2], m[1], m[3], func(r result.Row) float64 { return r.RoundTripsPerPurchase }) {
			t.Fatalf("that %s takes more round trips than %s at %s is not known: %s", m[2], m[1], m[3], text)
		}
	}
	if m := madeMore.FindStringSubmatch(text); m != nil && (res.Planned() > 1 || !strings.Contains(text, "In this one round")) {
		t.Fatalf("what one round showed is told as more: %s", text)
	}
	if res.Planned() == 1 && strings.Contains(text, " is fast") {
		t.Fatalf("one round decides: %s", text)
	}
}

// idle reports whether a way bought nothing in a round, and so is not compared.
func idle(res *result.Run, name, mix string) bool {
	return slices.ContainsFunc(res.Rows, func(r result.Row) bool {
		return r.Strategy == name && r.Mix().String() == mix && r.Bought == 0
	})
}

// names are those of a list in words.
func names(text string) []string {
	return strings.Fields(strings.NewReplacer(",", " ", " and ", " ", " or ", " ").Replace(text))
}

// TestEveryTableEndsInWords: in text and in Markdown, of every document, as the last line of each section with a table.
func TestEveryTableEndsInWords(t *testing.T) {
	docs := map[string]*Document{
		"run": Run(complete()), "reproduction": Run(reproduced()), "rounds": Run(inRounds(9)),
		"cut short": Run(inRounds(4)), "so far": SoFar(inRounds(4)), "incomplete": Run(partial()), "wrong": Run(violated()),
		"embedded": Run(embedded()), "open": Run(openRun()), "costs": Run(costed()), "faults": Faults(everyVerdict()),
		"faults cut short": Faults(cutShort()), "compared": Run(compared("fine", "coarse", "watch")),
		"sweep": Run(swept()), "two axes": Run(sweptTwice()), "sweep cut short": Run(sweptInPart()),
		"two runs": inTwoRuns(t, "fine", "coarse", "fine:poll=1ms", "watch"),
	}
	for name, d := range docs {
		tables := 0
		for _, s := range d.sections {
			if s.table == nil {
				continue
			}
			tables++
			for _, draw := range []func(section) string{
				func(s section) string { return drawn(t, &Document{sections: []section{s}}, Text, Options{}) },
				func(s section) string { return drawn(t, &Document{sections: []section{s}}, Markdown, Options{}) },
			} {
				text := strings.ReplaceAll(strings.Join(strings.Fields(draw(s)), " "), "\\", "")
				if want := strings.Join(strings.Fields(s.meaning), " "); s.meaning == "" || !strings.HasSuffix(text, want) ||
					!strings.Contains(text, strings.TrimSpace(inWords)) {
					t.Errorf("%s, %s: does not end with %q:\n%s", name, s.title, s.meaning, text)
				}
			}
		}
		if tables == 0 {
			t.Errorf("%s has no table", name)
		}
	}
}

// TestFindings: three sentences, the gravest first.
func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		run  *result.Run
		want []string // how each begins
	}{
		"decided":   {planted(map[string][]float64{"a": around(1000), "b": around(310)}), []string{"A is faster", "A purchase takes", "Clients and server"}},
		"one round": {complete(), []string{"In this one round fine", "In this one round a purchase", "It was measured once"}},
		"wrong":     {violated(), []string{"The audit of unsafe 5x5 failed in 1 of 2 rows", "There is no row"}},
		"embedded":  {embedded(), []string{"Of 11 claims of the book 0 hold", "The server was an embedded one"}},
		"cut short": {inRounds(4), []string{"The run ended after 3 of 9 rounds", "Of 11 claims", "The run was interrupted"}},
		"open":      {openRun(), []string{"In this one round watch 5x5 kept 99% of waits under 10 ms at up to 500/s; fine 5x5", "", ""}},
		"no row":    {&result.Run{}, []string{"No row was measured."}},
	} {
		got := Findings(c.run)
		if len(got) != len(c.want) {
			t.Errorf("%s: %d sentences: %q", name, len(got), got)
			continue
		}
		for i, begin := range c.want {
			if !strings.HasPrefix(strings.ToLower(got[i]), strings.ToLower(begin)) {
				t.Errorf("%s: %q does not begin with %q", name, got[i], begin)
			}
		}
	}
}

// TestFaultFindings names a broken promise first, and says what is missing.
func TestFaultFindings(t *testing.T) {
	got := fmt.Sprintf("%q", FaultFindings(everyVerdict()))
	if !strings.HasPrefix(got, `["set-px:expiry=pxat promises \"clock-independent\" and broke it in the scenario pause: sold twice."`) {
		t.Error(got)
	}
	alone := everyVerdict()
	alone.Subjects, alone.Scenarios, alone.Findings = alone.Subjects[2:3], alone.Scenarios[:1], alone.Findings[2:3]
	if got := FaultFindings(alone); len(got) != 1 || got[0] != "It does harm with set-px: sold twice; others were kept out until the lease ran out." {
		t.Errorf("%q", got)
	}
	if got := fmt.Sprint(FaultFindings(cutShort())); !strings.Contains(got, "embedded") {
		t.Error(got)
	}
}
