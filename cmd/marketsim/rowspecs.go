package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// specSyntax explains how a strategy is written.
const specSyntax = `A strategy is written strategy[:lock[+watchdog][+local]][:key=value]...; what you leave out has its default.
fine, fine:set-px, fine:poll=2ms and coarse:set-px+watchdog:ttl=500ms:renew=100ms are examples.`

// The default mixes of a market whose sellers list new items, and of one whose items circulate.
const (
	defaultMix    = "5x5"
	defaultHotMix = "0x5"
)

// A rowSpec is a strategy under a mix and a workload, at a rate if its loop is open: one row.
type rowSpec struct {
	spec     strategies.Spec
	mix      result.Mix
	workload result.Workload
	rate     float64 // purchases a second; 0: the loop is closed
	as       string  // its name in the result; empty: the canonical form of the strategy
}

// subject is what is measured, under the name that it has in the result.
func (r rowSpec) subject() bench.Subject {
	if r.as == "" || r.as == r.spec.String() {
		return r.spec
	}
	return renamed{r.spec, r.as}
}

func (r rowSpec) String() string {
	return result.RowName(r.subject().String(), r.mix, r.workload, r.rate)
}

// renamed is a strategy that is compared with itself, under a second name.
type renamed struct {
	strategies.Spec
	name string
}

func (r renamed) String() string { return r.name }

// checkRepeated refuses a row that is asked for twice: how often rows are measured is for --trials to say.
func checkRepeated(specs []rowSpec) error {
	for i, s := range specs {
		if slices.ContainsFunc(specs[:i], func(other rowSpec) bool { return other.String() == s.String() }) {
			return usageError{fmt.Errorf("%s is asked for twice: to measure each row several times, give --trials 6, 9, 12 or 15",
				s)}
		}
	}
	return nil
}

// specs are all strategies under all mixes at all rates, with the workload.
func (f runFlags) specs(given func(flag string) bool, workload result.Workload, rates []float64) ([]rowSpec, error) {
	if len(f.strategies) == 0 {
		known := strings.Join(names(), ", ")
		return nil, usageError{fmt.Errorf("which strategies? give --strategy with one or more of %s", known)}
	}
	mixes, err := f.parseMixes(given, workload.Hot > 0)
	if err != nil {
		return nil, err
	}
	var all []rowSpec
	for _, text := range f.strategies {
		specs, err := f.parseSpecs(text)
		if err != nil {
			return nil, err
		}
		for _, mix := range mixes {
			for _, spec := range specs {
				if len(rates) == 0 {
					all = append(all, rowSpec{spec: spec, mix: mix, workload: workload})
				}
				for _, rate := range rates {
					all = append(all, rowSpec{spec: spec, mix: mix, workload: workload, rate: rate})
				}
			}
		}
	}
	return all, checkRepeated(all)
}

// parseMixes are the mixes of --mix, or the single one of --sellers and --buyers. Where hot items circulate, the default
// has buyers alone.
func (f runFlags) parseMixes(given func(flag string) bool, hot bool) ([]result.Mix, error) {
	texts := f.mixes
	if hot && !given("mix") {
		texts = []string{defaultHotMix}
	}
	if given("sellers") || given("buyers") {
		switch {
		case given("mix"):
			return nil, usageError{errors.New("give either --mix or --sellers and --buyers")}
		case !given("sellers") || !given("buyers"):
			return nil, usageError{errors.New("--sellers and --buyers go together")}
		}
		texts = []string{result.Mix{Sellers: f.sellers, Buyers: f.buyers}.String()}
	}
	var mixes []result.Mix
	for _, text := range texts {
		mix, err := parseMix(text, hot)
		if err != nil {
			return nil, err
		}
		mixes = append(mixes, mix)
	}
	return mixes, nil
}

// parseMix reads a mix, which has no sellers where hot items circulate.
func parseMix(text string, hot bool) (result.Mix, error) {
	if hot {
		return bench.ParseHotMix(text)
	}
	mix, err := bench.ParseMix(text)
	if err != nil && strings.HasPrefix(text, "0x") {
		err = fmt.Errorf("%w; without sellers, items have to circulate: give --hot, too", err)
	}
	return mix, err
}

// names are the strategies that a spec may begin with.
func names() []string {
	var all []string
	full := catalogue.Full()
	for _, s := range full.Strategies {
		all = append(all, s.Name)
	}
	return all
}

// parseSpecs reads one strategy of --strategy. With --fencing it is two: with fences off and on.
func (f runFlags) parseSpecs(text string) ([]strategies.Spec, error) {
	spec, err := catalogue.Full().Parse(text)
	if err != nil {
		return nil, err
	}
	if !f.fencing {
		return []strategies.Spec{spec}, nil
	}
	if err := checkFencing(spec, text); err != nil {
		return nil, err
	}
	var both []strategies.Spec
	for _, value := range []string{"off", "on"} {
		spec, err := catalogue.Full().Parse(text + ":fencing=" + value)
		if err != nil {
			return nil, err
		}
		both = append(both, spec)
	}
	return both, nil
}

// checkFencing refuses --fencing where there is nothing to compare, or where the strategy sets fencing itself.
func checkFencing(spec strategies.Spec, text string) error {
	for part := range strings.SplitSeq(text, ":") {
		if strings.HasPrefix(part, "fencing=") {
			return usageError{
				fmt.Errorf("--fencing measures %s with fencing=off and with fencing=on: leave %s out, or --fencing",
					spec.Strategy().Name, part),
			}
		}
	}
	kind, ok := spec.Lock()
	switch {
	case !ok:
		return usageError{fmt.Errorf("--fencing: %s takes no lock; %s does, as in %[2]s:fenced", spec, lockedName(spec))}
	case kind.Promises.Fenced:
		return nil
	}
	return usageError{fmt.Errorf("--fencing: the lock %s gives its holders no fence to compare: take one that does (%s), "+
		"or measure %s:fencing=off,%[3]s:fencing=token without --fencing",
		kind.Name, strings.Join(catalogue.Full().FencedLocks(), ", "), text)}
}

// lockedName is the strategy of the spec if it takes a lock, else one that does.
func lockedName(spec strategies.Spec) string {
	if _, ok := spec.Lock(); ok {
		return spec.Strategy().Name
	}
	return "coarse"
}
