package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench/history"
)

// defaultCheckTimeout bounds the check of one history.
const defaultCheckTimeout = time.Minute

// checkFlags are those of the command check.
type checkFlags struct {
	timeout time.Duration
	html    string
	json    bool
}

func newCheck() *cobra.Command {
	f := checkFlags{timeout: defaultCheckTimeout}
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Judge the histories that run --history recorded, without Redis",
		Long: `Judge every history in a folder and below: is there an order of the operations, one after the other, that explains
what every client was told and what the market held at the end? The answer is linearizable, violated or unknown (out of
time), for the life of each item, for what each account holds, for the order in which accounts that could run out of coins
were used, and for who held each lock. The verdict says what was not checked.

Exit codes: 0 everything is linearizable, 1 something is unknown, 2 a history is damaged, 3 something is violated.`,
		Example: `  marketsim run --strategy unsafe,fine --mix 5x5 --history h
  marketsim check h --html violation.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.check(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.timeout, "timeout", f.timeout, "time for the check of one history")
	flags.StringVar(&f.html, "html", "", "`file` for a picture of the first violation of an item or of an account's order")
	flags.BoolVar(&f.json, "json", false, "print the verdicts as JSON")
	_ = cmd.MarkFlagFilename("html", "html")
	return cmd
}

// judged is the verdict on the history in a folder.
type judged struct {
	Dir string `json:"dir"`
	history.Verdict
}

func (f checkFlags) check(cmd *cobra.Command, dir string) error {
	if f.timeout <= 0 {
		return usageError{fmt.Errorf("--timeout %s: must be positive", f.timeout)}
	}
	dirs, err := history.Find(dir)
	if err != nil {
		return err
	}
	var errs []error
	verdicts := []judged{}
	for _, dir := range dirs {
		v, err := f.judge(cmd.Context(), dir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		verdicts = append(verdicts, judged{dir, v})
		if err := interruption(cmd.Context()); err != nil {
			errs = append(errs, err)
			break
		}
		errs = append(errs, ruling(dir, v))
	}
	return errors.Join(append(errs, f.show(cmd.OutOrStdout(), verdicts), f.draw(cmd.ErrOrStderr(), verdicts))...)
}

// judge reads and checks one history.
func (f checkFlags) judge(ctx context.Context, dir string) (history.Verdict, error) {
	h, err := history.Read(dir)
	if err != nil {
		return history.Verdict{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	return history.Check(ctx, h), nil
}

// interruption is errInterrupted if the user stopped the check.
func interruption(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: what was not decided by then is unknown", errInterrupted)
	}
	return nil
}

// ruling is what a verdict means for the exit code.
func ruling(dir string, v history.Verdict) error {
	switch v.Result {
	case history.Violated:
		return fmt.Errorf("%w: the history of %s %s in %s has no order that explains it", errViolation, v.Subject, v.Mix, dir)
	case history.Undecided:
		return fmt.Errorf("the history of %s %s in %s is not decided; give more --timeout", v.Subject, v.Mix, dir)
	}
	return nil
}

// show prints the verdicts.
func (f checkFlags) show(w io.Writer, verdicts []judged) error {
	if f.json {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(verdicts)
	}
	for _, v := range verdicts {
		if _, err := fmt.Fprintln(w, v.Dir); err != nil {
			return err
		}
		if err := v.Write(w); err != nil {
			return err
		}
	}
	return nil
}

// draw stores the picture of the first violation that can be drawn, if one was asked for.
func (f checkFlags) draw(stderr io.Writer, verdicts []judged) error {
	if f.html == "" {
		return nil
	}
	for _, v := range verdicts {
		for _, p := range v.Parts {
			for _, s := range p.Stories {
				var page bytes.Buffer
				drawn, err := s.Draw(&page)
				if err != nil {
					return err
				}
				if drawn {
					err := store(f.html, func(w io.Writer) error { _, err := page.WriteTo(w); return err })
					if err == nil {
						fmt.Fprintf(stderr, "drawn in %s: %s\n", f.html, s.Text)
					}
					return err
				}
			}
		}
	}
	fmt.Fprintln(stderr, "nothing to draw: no order of operations is violated")
	return nil
}
