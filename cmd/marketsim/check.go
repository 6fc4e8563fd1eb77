package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/internal/history"
	"github.com/marketsim/marketsim/internal/stored"
)

func newCheck(p *program) *cobra.Command {
	var timeout time.Duration
	var out output
	cmd := &cobra.Command{
		Use:  "check DIR",
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.check(cmd.Context(), args[0], timeout, out) },
	}
	group(cmd, "Flags", func(flags *pflag.FlagSet) {
		flags.DurationVar(&timeout, "timeout", time.Minute, "`time` for the check of one history")
		out.add(flags, checkFormats)
	})
	return cmd
}

// A historyVerdict is what the check of a folder's history found.
type historyVerdict struct {
	Dir string `json:"dir"`
	history.CheckResult
}

// check checks each history at and below a folder. What one of them lacks, or is, does not
// keep the others from being checked: all that is wrong is told at the end.
func (p *program) check(ctx context.Context, dir string, timeout time.Duration, out output) error {
	switch {
	case timeout <= 0:
		return usagef("--timeout %s: must be positive", timeout)
	case dir == "":
		return usagef("check what? the name of the folder is empty")
	}
	if err := out.prepare(); err != nil {
		return err
	}
	dirs, err := history.Find(dir)
	if err != nil {
		return err
	}
	ctx, stop := p.interruptible(ctx)
	defer stop()

	var errs []error
	verdicts := []historyVerdict{} // not nil, which JSON would have as null
	for _, dir := range dirs {
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(p.stderr, "checking %s\n", printable(dir))
		h, err := history.Read(ctx, dir)
		if err != nil {
			errs = append(errs, interruptedOr(ctx, err))
			continue
		}

		// The time is for one history: the search in it may not end.
		limited, cancel := context.WithTimeout(ctx, timeout)
		v := historyVerdict{dir, history.Check(limited, h)}
		cancel()
		verdicts = append(verdicts, v)
		errs = append(errs, v.ruling(ctx))
	}
	return errors.Join(append(errs, p.show(verdicts, out.format))...)
}

// show prints verdicts, without terminal codes that a history may hold.
func (p *program) show(verdicts []historyVerdict, format string) error {
	var text strings.Builder
	if format == asJSON {
		if err := stored.Encode(&text, "verdicts", verdicts, " "); err != nil {
			return err
		}
	} else {
		for _, v := range verdicts {
			fmt.Fprintln(&text, v.Dir)
			_ = v.Write(&text) // into memory
		}
	}

	_, err := fmt.Fprint(p.stdout, printable(text.String()))
	return err
}

// ruling is the error that a verdict means for the exit code. What was not decided when
// the user stopped it is unknown.
func (v historyVerdict) ruling(ctx context.Context) (err error) {
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: what was not decided by then is unknown", errInterrupted)
	}
	switch {
	case v.Answer == history.Violated:
		violation := fmt.Errorf("%w: the history of %s %s in %s: %s", errViolation, v.Subject, v.Mix, v.Dir, v.Findings())
		err = errors.Join(violation, err)
	case v.Answer == history.Undecided && err == nil:
		err = fmt.Errorf("the history of %s %s in %s is not decided; give more --timeout", v.Subject, v.Mix, v.Dir)
	}
	return err
}
