package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/stored"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// What begins the names of strategies that --script makes.
const scriptPrefix = "script:"

// scriptFlags are the Lua scripts of the user that a command takes as strategies.
type scriptFlags struct {
	given []string // NAME=FILE
}

func (f *scriptFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.given, "script", nil,
		"`NAME=FILE` makes script:NAME of a Lua script (see list script)")
}

// known is the whole catalogue with the strategies of the scripts, which are read. An error
// is one of usage: of a script, or of a spec that names one which was not given.
func (f *scriptFlags) known(specs []string) (strategies.Catalogue, []stored.Script, error) {
	c := catalogue.Full()
	var all []stored.Script
	for _, text := range f.given {
		script, err := readScript(text)
		if err != nil {
			return c, nil, err
		}
		if slices.Contains(c.StrategyNames(), script.Name) {
			return c, nil, usagef("--script %q: its NAME is given twice", text)
		}
		c.Strategies = append(c.Strategies, strategies.OwnScript(script.Name, script.Text))
		all = append(all, script)
	}

	for _, spec := range specs {
		name, isScript := strings.CutPrefix(spec, scriptPrefix)
		if isScript && !slices.Contains(c.StrategyNames(), spec) {
			return c, nil, usagef("%s: which script is it? give --script %s=FILE", spec, name)
		}
	}
	return c, all, nil
}

// readScript reads a script that is given as NAME=FILE. One that cannot be parsed is
// refused before anything starts.
func readScript(text string) (stored.Script, error) {
	name, file, _ := strings.Cut(text, "=")
	if badName(name) || file == "" {
		return stored.Script{}, usagef("--script %q: want NAME=FILE, such as mine=buy.lua; "+
			"a NAME has letters, digits and .+_-", text)
	}

	content, err := os.ReadFile(file)
	if err != nil {
		return stored.Script{}, usagef("--script %s: %w; 'marketsim list script' prints one to start from", name, err)
	}
	if err := backend.CheckLua(string(content)); err != nil {
		return stored.Script{}, usagef("--script %s: %s is no script that Lua reads: %w", name, file, err)
	}
	return stored.NewScript(scriptPrefix+name, file, string(content)), nil
}

// badName reports whether a name cannot be that of a program or script of the user's: it
// is part of a SPEC, which commas separate, and of the names of folders.
func badName(name string) bool {
	return name == "" || unsafeInNames.MatchString(name) || strings.ContainsAny(name, ",=")
}

// listScript prints a script to start from, which is a file as it stands.
func (p *program) listScript() error {
	_, err := fmt.Fprint(p.stdout, strategies.ScriptToCopy())
	return err
}

// hideInScripts takes the passwords out of scripts, and notes where it does. Their sums are
// those of the files.
func (s *passwords) hideInScripts(all []stored.Script) {
	for i := range all {
		script := &all[i]
		script.File = s.hide(script.File)

		hidden := s.hide(script.Text)
		script.Masked = script.Masked || hidden != script.Text
		script.Text = hidden
	}
}
