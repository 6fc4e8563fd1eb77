// Marketsim shows how concurrent clients should share state in Redis. It loads the game market of Redis in Action
// with sellers and buyers, under optimistic locking, a market-wide lock, per-item locks and no protection at all,
// and accounts for every coin and item afterwards.
//
//	marketsim reproduce                           tables 6-1 to 6-3 of the book, measured here beside the published
//	marketsim run --strategy fine --mix 5x5       one or more strategies under one or more mixes
//	marketsim compare SPEC SPEC... | OLD NEW      which strategy, or which stored run, is faster, or that it is not known
//	marketsim sweep --strategy S --axis A         which strategy is best where, along one or two axes; where one passes another
//	marketsim check DIR                           judge the histories that run --history DIR recorded, without Redis
//	marketsim faults [--scenario S] [--lock L]    what strategies and locks lose when clients and servers fail
//	marketsim list [NAME|--locks|--scenarios]     the strategies, locks and scenarios; all of one; what locks promise
//	marketsim report DIR|FILE...                  redraw what was stored, without Redis; --format html is a page to look at
//	marketsim plot DIR|run.json|sweep.json        draw a figure of a stored run as SVG or PNG
//	marketsim clean --prefix P                    remove what a killed run left
//	marketsim version
//
// # Where the market runs
//
// With --redis URL (or REDIS_URL) on your server: redis://, rediss:// with --cacert, --cert, --key and --sni, or
// unix://, of one server or as said below. The password is that of --password-file, else the URL's, else REDIS_PASSWORD. Only keys under the run's
// prefix are touched, and they are removed at the end. Without a URL, marketsim starts a private redis-server or
// valkey-server from PATH, else a container (image MARKETSIM_IMAGE), else an embedded miniredis, whose numbers are not
// Redis's. --backend forces one.
//
// # Redis Cluster
//
// --redis takes any node of your cluster, --backend cluster starts a private one. A market lies in one slot, which the
// braces of its prefix choose. --markets N makes N of them, spread over the masters, and divides the workers among them;
// each is audited, and the report says what each node had. Workers follow a slot that is moved: what was refused is tried
// again. Where a master is gone the row ends as incomplete.
//
// # Strategies
//
// A strategy is written strategy[:lock[+watchdog][+local]][:key=value]..., for example coarse, fine:redlock,
// fine:set-px+watchdog:ttl=500ms or watch:timeout=1s. Locks that need servers besides Redis get private ones, or yours:
// --redlock URL,URL,URL, --zookeeper HOST:PORT,... and --etcd HOST:PORT,...
//
// --browsers N adds workers who look at listings under a lock that can be shared (rw-safe, rw-hash, rw-keys, rw-naive),
// and counts what they saw torn.
//
// # Rounds
//
// One number says nothing about chance. --trials N measures N rounds: in each, every row once, in an order drawn from the
// seed. Tables then show the median of the rounds, and how far its 95% interval reaches. N is 6, 9, 12 or 15, and fixed before
// the first round; a run that is interrupted keeps its complete rounds, and decides nothing.
//
// # Comparisons
//
// compare measures strategies in rounds, each row once a round, and judges ratios made inside a round: faster, slower, no
// difference, or not decided. Rounds that were cut short decide nothing, and more rounds are a new run. compare OLD NEW
// reads two stored runs, and says first in what else they differ. report --format gobench is for benchstat.
//
// # Sweeps
//
// sweep --axis clients=1,2,4..64 measures strategies at each point of one or two axes, in rounds as compare does: sellers and
// buyers, items that circulate (hot), work inside the critical section (hold), and delay (rtt). It says which is the fastest
// at each point, between which two points one passes another, and what the worst choice costs. With --out it is stored as
// sweep.json after each round.
//
// # Large
//
// run --stock N lists N items before a row begins. Redis needs about 120 bytes an item; this
// process 90 for each that is listed beforehand, and 25 for each that is bought.
//
// # At a rate
//
// Without more, a buyer orders as soon as its last order is done: a closed loop, which asks less of a server that
// stands still, and so hears little of it. run --rate 1k,2k,4k is an open loop: orders fall due at times that are fixed
// beforehand by --seed (--arrivals poisson, or constant), and an order that finds all buyers busy waits. Its latency
// counts from when it was due, all refusals included; it is given up 10 s later. Sellers keep about 1,000 listings up.
// Each rate is a row, and the report names the highest that was reached with a 99th percentile under --slo. A rate that
// was not reached is said to be so, and is no failure. report --format hgrm --row NAME is for HdrHistogram's plotter.
//
// # Looking at it
//
// report DIR... --format html -o report.html makes one page of stored results: what was found, pictures, the tables, and
// a story for each finding of faults. It needs no network and no server, and can be mailed and printed. check --html
// FILE makes a page of a violation: the story of what happened, and porcupine's picture of it.
//
// # Exit codes
//
//	0    fine
//	1    the environment failed: no server, a server that died; what was measured is kept
//	2    the usage: an unknown strategy, a bad mix, a file that cannot be written
//	3    the audit or the check of a history found a violation, or a lock broke a promise that it made
//	130  interrupted; a first Ctrl-C finishes the operations in flight and audits, a second leaves at once
//
// Where several hold, 3 goes over 1 and 1 over 130.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/market/backend"
)

func main() {
	serveClient() // does not return in a process that was started to be a client
	backend.QuietLogs()
	err := run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "marketsim: %v\n", err)
	}
	os.Exit(exitCode(err))
}

// program is what all commands are given.
type program struct {
	args           []string // as they were typed
	stdout, stderr io.Writer
	interrupts     *interrupts
}

// run is the whole program: main without the process. It returns an error for exitCode, in words for the user.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	for i, arg := range args {
		if strings.ContainsFunc(arg, unicode.IsControl) { // a list would end at its first line
			return usageError{fmt.Errorf("argument %d holds a control character (see 'marketsim --help')", i+1)}
		}
	}
	p := &program{args: args, stdout: stdout, stderr: stderr, interrupts: &interrupts{}}
	ctx, stop := p.interrupts.watch(ctx, stderr)
	defer stop()
	root := newRoot(p)
	root.SetArgs(append([]string{}, args...)) // nil would mean those of the process
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	strictWords(root)
	started := false
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		started = true
		return emptyFlags(cmd.Flags())
	}
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

func newRoot(p *program) *cobra.Command {
	root := &cobra.Command{
		Use:   "marketsim",
		Short: "How should concurrent clients share state in Redis?",
		Long: `Marketsim loads the game market of Redis in Action with sellers and buyers, under optimistic locking, a
market-wide lock, per-item locks and no protection at all, and accounts for every coin and item afterwards.

Without --redis it starts a private server: redis-server or valkey-server if there is one in PATH, else Redis in
Docker, else an embedded miniredis, whose numbers are not Redis's. On your own server only keys under the run's
prefix are touched, and they are removed at the end.

Exit codes: 0 fine, 1 the environment failed, 2 the usage, 3 a violation was found, 130 interrupted.`,
		Example: `  marketsim reproduce                            the book's three tables, measured here (2 minutes)
  marketsim list                                 what can be measured
  marketsim run --strategy watch,fine --mix 5x5  measure some of it
  marketsim faults --lock set-px                 what a lock loses when its holder fails`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       versionLine(),
		Args:          knownCommand,
		RunE:          showHelp,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		newReproduce(p), newRun(p), newCompare(p), newSweep(p), newCheck(p), newFaults(p), newList(p), newReport(p),
		newPlot(p), newClean(p), newVersion(p),
	)
	return root
}

func showHelp(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// strictWords makes cobra's own commands refuse what they do not know: by themselves they print help, and exit with 0.
// Call it when the outputs are set, because cobra's commands keep them.
func strictWords(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Args = func(_ *cobra.Command, args []string) error {
				found, rest, err := root.Find(args)
				if err == nil && len(rest) > 0 {
					err = knownCommand(found, rest)
				}
				return err
			}
		case "completion":
			cmd.Args, cmd.RunE = knownCommand, showHelp
		}
	}
}

// flagError says what a flag takes, in words and not with Go's.
func flagError(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	takes := map[string]string{
		"duration": "a time with its unit, such as 5s or 500ms", "int": "a whole number", "int64": "a whole number",
		"uint64": "a whole number that is not negative", "bool": "true or false",
	}[invalid.GetFlag().Value.Type()]
	if takes == "" {
		return err
	}
	return fmt.Errorf("--%s %q: it takes %s", invalid.GetFlag().Name, quotable(invalid.GetValue()), takes)
}

// emptyFlags refuses a flag that is given nothing, or a list with nothing between two commas.
func emptyFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		list, isList := f.Value.(pflag.SliceValue)
		if isList {
			values = list.GetSlice()
		}
		empty := slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" })
		switch {
		case isList && len(values) > 1 && empty:
			err = usageError{fmt.Errorf("--%s has an empty element: %s", f.Name, quotable(strings.Join(values, ",")))}
		case empty || len(values) == 0:
			err = usageError{fmt.Errorf("--%s is given nothing: give it a value, or leave it out", f.Name)}
		}
	})
	return err
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

func newVersion(p *program) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.stdout, versionLine())
			return err
		},
	}
}

// versionLine says which program this is.
func versionLine() string {
	return fmt.Sprintf("marketsim %s %s %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// version is the module's version, with the commit where the build knows it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}
