package main

import (
	"fmt"
	"strings"

	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// parseSpecs reads one strategy of --strategy. With --fencing it is two: with fences off and on.
func (f *runFlags) parseSpecs(text string) ([]strategies.Spec, error) {
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

// checkFencing refuses --fencing where there is nothing to compare, or where it has been said otherwise.
func checkFencing(spec strategies.Spec, text string) error {
	for part := range strings.SplitSeq(text, ":") {
		if strings.HasPrefix(part, "fencing=") {
			return usageError{fmt.Errorf("--fencing measures %s with fencing=off and with fencing=on: leave %s out, or --fencing",
				spec.Strategy().Name, part)}
		}
	}
	kind, ok := spec.Lock()
	switch {
	case !ok:
		return usageError{fmt.Errorf("--fencing: %s takes no lock; %s does, as in %[2]s:fenced", spec, lockedName(spec))}
	case kind.Promises.Fenced:
		return nil
	}
	return usageError{fmt.Errorf("--fencing: the lock %s gives its holders no fence to compare: take one that does (%s), or measure"+
		" %s:fencing=off,%[3]s:fencing=token without --fencing", kind.Name, strings.Join(catalogue.Full().FencedLocks(), ", "), text)}
}
