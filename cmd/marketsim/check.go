package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/bench/history"
	"github.com/marketsim/marketsim/bench/report"
)

// defaultCheckTimeout bounds the check of one history.
const defaultCheckTimeout = time.Minute

// checkFlags are those of the command check.
type checkFlags struct {
	timeout time.Duration
	html    string
	out     outputFlags
}

func newCheck(p *program) *cobra.Command {
	f := checkFlags{timeout: defaultCheckTimeout}
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Judge the histories that run --history recorded, without Redis",
		Long: `Judge every history in a folder and below: is there an order of the operations, one after the other, that
explains every reply that a client got and what the market held at the end? The answer is linearizable, violated or
unknown (out of time), for the life of each item, for what each account holds, for the order in which accounts that
could run out of coins were used, and for who held each lock. The verdict says what was not checked.

--html stores a page about the first violation that has a picture: its story in words, operation by operation, and below
it the operations as porcupine draws them, with the longest order that there is and where it ends.

Exit codes: 0 everything is linearizable, 3 something is violated, 1 something is unknown, 2 the usage: there is no
history, or one that is damaged, 130 interrupted.`,
		Example: `  marketsim run --strategy unsafe,fine --mix 5x5 --history h
  marketsim check h --html violation.html`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.check(cmd.Context(), p, args[0]) },
	}
	flags := cmd.Flags()
	flags.DurationVar(&f.timeout, "timeout", f.timeout, "time for the check of one history")
	flags.StringVar(&f.html, "html", "", "`file` for a page that tells and draws the first violation of an item or of an account's order")
	f.out.add(cmd)
	_ = cmd.MarkFlagFilename("html", "html")
	return cmd
}

// judged is the verdict on the history in a folder.
type judged struct {
	Dir string `json:"dir"`
	history.CheckResult
}

func (f checkFlags) check(ctx context.Context, p *program, dir string) error {
	if f.timeout <= 0 {
		return usageError{fmt.Errorf("--timeout %s: must be positive", f.timeout)}
	}
	out, err := f.out.prepared()
	if err != nil {
		return err
	}
	if err := writable("--html", f.html); err != nil {
		return err
	}
	dirs, err := history.Find(dir)
	if err != nil {
		return err
	}
	var errs []error
	verdicts := []judged{}
	for _, dir := range dirs {
		fmt.Fprintf(p.stderr, "checking %s\n", printable(dir))
		v, err := f.judge(ctx, dir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		verdicts = append(verdicts, judged{dir, v})
		interrupted := interruption(ctx)
		if interrupted == nil || v.Answer == history.Violated {
			errs = append(errs, ruling(dir, v))
		}
		if interrupted != nil {
			errs = append(errs, interrupted)
			break
		}
	}
	return errors.Join(append(errs, out.finish(p.stdout, p.stderr, verdictList(verdicts)), f.draw(p.stderr, verdicts))...)
}

// judge reads and checks one history.
func (f checkFlags) judge(ctx context.Context, dir string) (history.CheckResult, error) {
	h, err := history.Read(dir)
	if err != nil {
		return history.CheckResult{}, err
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
func ruling(dir string, v history.CheckResult) error {
	switch v.Answer {
	case history.Violated:
		return fmt.Errorf("%w: the history of %s %s in %s: %s", errViolation, v.Subject, v.Mix, dir, v.Findings())
	case history.Undecided:
		return fmt.Errorf("the history of %s %s in %s is not decided; give more --timeout", v.Subject, v.Mix, dir)
	}
	return nil
}

// verdictList is the report of verdicts.
func verdictList(verdicts []judged) *report.Document {
	lines := []string{}
	records := [][]string{{"dir", "strategy", "mix", "question", "result", "wrong", "checked"}}
	for _, v := range verdicts {
		var text strings.Builder
		_ = v.Write(&text) // into memory
		lines = append(append(lines, v.Dir), strings.Split(strings.TrimSuffix(text.String(), "\n"), "\n")...)
		for _, p := range v.Parts {
			records = append(records,
				[]string{v.Dir, v.Subject, v.Mix, p.Name, string(p.Answer), strconv.Itoa(p.Wrong), p.Checked})
		}
	}
	return report.Records(lines, records, verdicts).InWords(verdictsInWords(verdicts))
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
				drawn, err := s.Draw(&page, fmt.Sprintf("From the history of %s %s in %s", v.Subject, v.Mix, v.Dir))
				if err != nil {
					return err
				}
				if drawn {
					err := store(f.html, func(w io.Writer) error { _, err := page.WriteTo(w); return err })
					if err == nil {
						fmt.Fprintf(stderr, "drawn in %s: %s\n", f.html, printable(s.Text))
					}
					return err
				}
			}
		}
	}
	fmt.Fprintln(stderr, "nothing to draw: no order of operations is violated")
	return nil
}
