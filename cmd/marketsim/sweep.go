package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/bench/sweep"
)

func newSweep(p *program) *cobra.Command {
	var f rowFlags
	var texts []string
	cmd := &cobra.Command{
		Use:  "sweep --strategy SPEC[,SPEC...] --axis NAME=VALUES [--axis NAME=VALUES]",
		Args: cobra.NoArgs,
	}
	group(cmd, "Load", func(flags *pflag.FlagSet) {
		f.addStrategy(flags)
		flags.StringArrayVar(&texts, "axis", nil, "`NAME=VALUES` to measure them at; may be given twice")
		f.addLoad(flags)
	})
	group(cmd, "Measuring", func(flags *pflag.FlagSet) {
		f.addMeasuring(flags, 2*time.Second, 500*time.Millisecond, 0) // short rows, because there are many of them
	})
	_ = errors.Join(cmd.MarkFlagRequired("strategy"), cmd.MarkFlagRequired("axis"))
	return f.measures(p, cmd, func(cmd *cobra.Command, names []string) (_ []result.Point, err error) {
		f.axes, err = sweep.ParseAxes(texts)
		if err != nil {
			return nil, usageError{fmt.Errorf("--axis: %w", err)}
		}
		base, err := f.base(cmd)
		if err != nil {
			return nil, err
		}
		return sweep.Expand(base, names, f.axes), nil
	})
}

// base is the point from which the axes go. What is an axis has no flag.
func (f *rowFlags) base(cmd *cobra.Command) (result.Point, error) {
	for _, axis := range f.axes {
		flag := string(axis.Name)
		if axis.Name == result.Clients {
			flag = "mix"
		}
		if cmd.Flags().Changed(flag) {
			return result.Point{}, usageError{fmt.Errorf(
				"--%s and --axis %s=... both say the same: give one of them", flag, axis.Name)}
		}
	}
	mixes, err := f.parseMixes(cmd)
	if err == nil && len(mixes) > 1 {
		err = usageError{errors.New("--mix: what is no axis of a sweep has one value")}
	}
	if err != nil {
		return result.Point{}, err
	}
	return result.Point{Mix: mixes[0], Load: f.loadOf()}, nil
}
