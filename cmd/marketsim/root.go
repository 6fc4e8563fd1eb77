package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/market/backend"
)

// run is the whole program: main without the process. It returns an error for exitCode, in words for the user.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	for i, arg := range args {
		if strings.ContainsFunc(arg, unicode.IsControl) { // a list would end at its first line
			return usageError{fmt.Errorf("argument %d holds a control character (see 'marketsim --help')", i+1)}
		}
	}
	root := newRoot(args)
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	started := false
	root.PersistentPreRun = func(*cobra.Command, []string) { started = true }
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && (!started || isUsage(err)) {
		err = usageError{fmt.Errorf("%w (see '%s --help')", err, cmd.CommandPath())}
	}
	return scrub(explain(err), args)
}

// explain adds the next step to an error of the server, unless the package that returned it already has.
func explain(err error) error {
	explained := backend.Explain(err)
	if err == nil || strings.Contains(err.Error(), strings.TrimPrefix(explained.Error(), err.Error())) {
		return err
	}
	return explained
}

func newRoot(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:   "marketsim",
		Short: "How should concurrent clients share state in Redis?",
		Long: `Marketsim loads the game market of Redis in Action with sellers and buyers, under optimistic locking, a
market-wide lock, per-item locks and no protection at all, and accounts for every coin and item afterwards.

Without --redis it starts a private server: redis-server or valkey-server if there is one in PATH, else Redis in
Docker, else an embedded miniredis, whose numbers are not Redis's. On your own server only keys under the run's
prefix are touched, and they are removed at the end.

Exit codes: 0 fine, 1 the environment failed, 2 the usage, 3 the audit found a violation, 130 interrupted.`,
		Example: `  marketsim reproduce                            the book's three tables, measured here (2 minutes)
  marketsim list                                 what can be measured
  marketsim run --strategy watch,fine --mix 5x5  measure some of it
  marketsim faults --lock set-px                 what a lock loses on a bad day`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.AddCommand(newReproduce(args), newRun(args), newFaults(), newList(), newReport(), newClean(), newVersion())
	return root
}

// knownCommand refuses a word that is no command, and suggests the nearest.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	message := fmt.Sprintf("unknown command %q", quotable(args[0]))
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		message += fmt.Sprintf("; did you mean %q?", near[0])
	}
	return errors.New(message)
}

// noArgs refuses words that are neither flags nor their values.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("%s takes flags only, and %q is none", cmd.Name(), quotable(args[0]))
}

// quotable is a word of the command line, unless it may hold a password.
func quotable(word string) string {
	if strings.Contains(word, "@") {
		return "..."
	}
	return word
}
