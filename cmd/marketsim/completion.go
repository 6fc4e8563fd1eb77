package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench/fault"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/strategies/lock"
)

// complete offers fixed words for a flag in shell completion.
func complete(cmd *cobra.Command, flag string, words []string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completeList is complete for a flag that takes several words, separated by commas.
func completeList(cmd *cobra.Command, flag string, words []string) {
	completeElements(cmd, flag, func(string) []string { return words })
}

// completeSpecs offers what a strategy is made of, piece by piece: its name, then locks and parameters. Where locks
// stand alone, they are offered first.
func completeSpecs(cmd *cobra.Command, flag string, alone bool) {
	completeElements(cmd, flag, func(typed string) []string { return specOffers(catalogue.Full(), typed, alone) })
}

// completeElements offers words for the last element of a list, of which the user has typed a part.
func completeElements(cmd *cobra.Command, flag string, words func(typed string) []string) {
	offer := func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		begin := strings.LastIndex(typed, ",") + 1
		var offers []string
		for _, w := range words(typed[begin:]) {
			offers = append(offers, typed[:begin]+w)
		}
		return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	_ = cmd.RegisterFlagCompletionFunc(flag, offer)
}

// specOffers are the ways in which what was typed of a spec can go on.
func specOffers(c strategies.Catalogue, typed string, alone bool) []string {
	end := strings.LastIndex(typed, ":")
	if end < 0 {
		if alone {
			return fault.Names(c)
		}
		return names()
	}
	head := typed[:end]
	spec, err := c.Parse(head)
	if err != nil && alone {
		spec, err = c.Parse("fine:" + head)
	}
	if err != nil {
		return nil
	}
	var offers []string
	params := spec.Strategy().Params
	if kind, locked := spec.Lock(); locked {
		params = slices.Concat(params, kind.Params)
		if head == spec.Strategy().Name {
			offers = lockOffers(c, head)
		}
	}
	for _, p := range params {
		given := strings.Contains(head+":", ":"+p.Name+"=")
		if !given && !(alone && fault.SetByScenarios(p.Name)) {
			offers = append(offers, head+":"+p.Name+"=")
		}
	}
	return offers
}

// lockOffers are the locks of a strategy, and each with every modifier that it can have.
func lockOffers(c strategies.Catalogue, strategy string) (offers []string) {
	for _, kind := range c.Locks {
		names := []string{kind.Name}
		for _, modifier := range lock.Modifiers() {
			names = append(names, kind.Name+"+"+modifier)
		}
		for _, name := range names {
			if _, err := c.Parse(strategy + ":" + name); err == nil {
				offers = append(offers, strategy+":"+name)
			}
		}
	}
	return offers
}
