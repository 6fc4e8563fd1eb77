package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/bench/history"
)

// end stores and prints the result, and returns what the exit code is made of.
func (s *session) end(status bench.Status, failure error) error {
	s.result.Status = status
	if len(s.result.Manifest.Config.Reproduces) > 0 {
		s.result.Claims = bench.Judge(s.result.Manifest, s.result.Rows)
	}
	saved := s.flags.out.save(&s.result)
	shown := s.flags.out.show(s.stdout, &s.result)
	if saved == nil {
		for _, path := range s.flags.out.paths() {
			fmt.Fprintf(s.stderr, "stored in %s\n", path)
		}
	}
	if s.base.Keep && len(s.result.Rows) > 0 {
		fmt.Fprintf(s.stderr, "the market is kept under %s; remove it with 'marketsim clean --prefix %s'\n",
			s.base.Keys.Prefix(), s.base.Keys.Prefix())
	}
	if slices.ContainsFunc(s.rows, func(c bench.Config) bool { return c.History != "" && history.Ended(c.History) }) &&
		s.flags.historyRoot != "" {
		fmt.Fprintf(s.stderr, "history recorded; judge it with 'marketsim check %s'\n", s.flags.historyRoot)
	}
	return errors.Join(s.violation(), s.broken(status, failure), saved, shown)
}

// broken says how far a run came that did not come to its end.
func (s *session) broken(status bench.Status, failure error) error {
	done := 0
	for _, r := range s.result.Rows {
		if r.Status == bench.Complete {
			done++
		}
	}
	rows := fmt.Sprintf("%d of %s complete; the report holds what was measured", done, count(int64(len(s.rows)), "row"))
	switch {
	case failure != nil:
		return fmt.Errorf("incomplete: %s\n%w", rows, failure)
	case status == bench.Interrupted:
		return fmt.Errorf("%w: %s", errInterrupted, rows)
	}
	return nil
}

// violation says which rows the audit found wrong.
func (s *session) violation() error {
	var errs []error
	for _, r := range s.result.Rows {
		if r.Audit.Done && !r.Audit.OK {
			errs = append(errs, fmt.Errorf("%w: the audit of %s %s found %s", errViolation, r.Strategy,
				bench.Mix{Sellers: r.Sellers, Buyers: r.Buyers}, wrong(r.Audit)))
		}
	}
	if s.judged != nil {
		errs = append(errs, s.judged)
	}
	if s.flags.rough != nil && errors.Is(errors.Join(errs...), errViolation) {
		errs = append(errs, fmt.Errorf("%w: the same faults again: %s", errViolation, s.flags.rough.repeat))
	}
	return errors.Join(errs...)
}
