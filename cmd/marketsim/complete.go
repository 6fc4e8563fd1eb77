package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/verify/fault"
)

// complete has a shell complete the names that a command takes as arguments, and in flags.
func complete(cmd *cobra.Command) {
	c := catalogue.Full()
	schemes := fault.Names(c)
	var specs, scenarios []string
	for _, s := range c.Strategies {
		specs = append(specs, s.Name)
	}
	for _, k := range c.Locks {
		specs = append(specs, "fine:"+k.Name, "coarse:"+k.Name)
	}
	for _, sc := range everyScenario() {
		scenarios = append(scenarios, sc.Name)
	}
	cmd.ValidArgsFunction = map[string]cobra.CompletionFunc{
		"list": oneOf(slices.Concat(schemes, scenarios, specs)), "compare": oneOf(specs), "explore": oneOf(schemes),
	}[cmd.Name()]
	for flag, names := range map[string][]string{"strategy": specs, "lock": schemes, "scenario": scenarios} {
		_ = cmd.RegisterFlagCompletionFunc(flag, oneOf(names)) // where there is that flag
	}
}

// oneOf offers the names that begin as what was typed, after its last comma.
func oneOf(names []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) (all []string, _ cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		for _, name := range names {
			if strings.HasPrefix(before+name, typed) {
				all = append(all, before+name)
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}
