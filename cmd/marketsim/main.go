// Marketsim shows how concurrent clients should share state in Redis. It loads the game
// market of Redis in Action with sellers and buyers, under scripts, optimistic locking, a
// market-wide lock, per-item locks and no protection, and accounts for every coin and
// item afterwards. Without an argument it says which commands it has.
//
// Values go one way: flags become a plan (plan.go), which is measured (measure.go) on
// servers that are started or named (server.go), and the result is drawn (draw.go).
//
// # Exit codes
//
//	0    fine
//	1    the environment failed: no server, a server that died, no time for a check; what was measured is kept; with
//	     --strict a threshold was not decided
//	2    the usage: an unknown strategy, a bad mix, a file that cannot be written
//	3    the audit or the check of a history found a violation, a lock broke a promise that it made, rows broke a
//	     --threshold, or with --slo-fails too many orders were late
//	130  interrupted; a first Ctrl-C finishes the operations in flight and audits, a second leaves at once
//
// Where several hold, the first of 3, 2, 1 and 130 counts.
package main

import (
	"bufio"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/fault"
	"github.com/marketsim/marketsim/internal/load"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/wording"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

func main() {
	// Does not return in a process that was started to be a client in a scenario.
	fault.ServeChild(catalogue.Full)
	redisconn.QuietLogs()
	stdout, stderr := newStoppableWriter(os.Stdout), newStoppableWriter(os.Stderr)
	err := run(context.Background(), os.Args[1:], os.Stdin, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "marketsim: %v\n", err)
	}
	os.Exit(exitCode(err))
}

type program struct {
	args           []string // as they were typed
	stdout, stderr io.Writer
	passwords      passwords // of the user's servers
	quiet          bool      // neither progress nor notices are shown

	// Measures a row: load.Measure, in whose place a test has a script.
	measureRow func(context.Context, result.Point, load.Options) (result.Row, error)

	mu      sync.Mutex        // held while something is started, and by leave
	started redisconn.Closers // closed by leave, at a second signal, and by measure at its end
	over    bool              // the program ends by itself: leave does nothing any more
}

// run is main without what belongs to the process. It returns an error for
// exitCode, in words for the user.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	return newProgram(args, stdout, stderr).run(ctx, stdin)
}

func newProgram(args []string, stdout, stderr io.Writer) *program {
	p := &program{args: args, stdout: stdout, measureRow: load.Measure}
	p.stderr = redactor{stderr, &p.passwords}
	p.passwords.add(os.Getenv("REDIS_PASSWORD"))
	return p
}

// run runs the command that was typed.
func (p *program) run(ctx context.Context, stdin io.Reader) error {
	root := newRoot(p)
	root.SetArgs(append([]string{}, p.args...)) // nil would mean those of the process
	root.SetIn(stdin)
	help := bufio.NewWriter(p.stdout) // cobra ignores errors of writing
	root.SetOut(help)
	root.SetErr(shownBy(p.stderr))
	// To compare a very long word with the names of commands takes cobra minutes.
	root.DisableSuggestions = slices.ContainsFunc(p.args, func(arg string) bool { return len(arg) > wording.ExcerptBytes })

	accepted := false // whether cobra has accepted the command line
	// cobra calls one such hook, that of the command itself or the nearest above it: with one of
	// its own a command would be without checkFlags.
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		accepted = true
		return checkFlags(cmd)
	}
	cmd, err := root.ExecuteContextC(ctx)
	flushed := help.Flush() // returns the error of the first write that failed
	err = suggestList(cmp.Or(err, flushed))

	// Before cobra has accepted a command line, every error but one of writing help is about it.
	mistyped := !accepted && flushed == nil
	if err != nil && (mistyped || isUsage(err)) {
		err = usagef("%w (see '%s --help')", err, cmd.CommandPath())
	}
	return p.withoutSecrets(withNextStep(err))
}

// withNextStep adds what to do about an error of the server, unless the text says it
// already.
func withNextStep(err error) error {
	_, hasAdvice := errors.AsType[*rightsError](err)
	if err == nil || hasAdvice || isUsage(err) {
		return err
	}

	explained := redisconn.Explain(err)
	// If Explain has nothing to add, step is empty, and every text contains it.
	step := strings.TrimPrefix(explained.Error(), err.Error())
	if strings.Contains(err.Error(), step) {
		return err
	}
	return explained
}

//go:embed help
var helpFiles embed.FS

// explain gives a command the texts of its file: a summary, a description and examples.
func explain(cmd *cobra.Command) {
	text, _ := helpFiles.ReadFile("help/" + cmd.Name() + ".txt") // each command has one
	short, rest, _ := strings.Cut(string(text), "\n\n")
	long, examples, _ := strings.Cut(rest, "Examples:\n")
	cmd.Short, cmd.Long, cmd.Example = short, long+cmd.Long, strings.TrimSuffix(examples, "\n")
}

// complete has a shell complete the names that a command takes as arguments, and in flags.
func complete(cmd *cobra.Command) {
	cmd.ValidArgsFunction = map[string]cobra.CompletionFunc{
		"list": oneOf(schemeNames, scenarioNames, specNames, libraryNames),
		"run":  oneOf(specNames), "compare": oneOf(specNames), "sweep": oneOf(specNames),
		"explore": oneOf(schemeNames), "faults": oneOf(schemeNames), "adapter": oneOf(schemeNames),
	}[cmd.Name()]

	for flag, names := range map[string]func() []string{
		"strategy": specNames, "lock": schemeNames, "scenario": scenarioNames,
	} {
		_ = cmd.RegisterFlagCompletionFunc(flag, oneOf(names)) // an error means that cmd has no such flag
	}
}

func schemeNames() []string { return fault.SchemeNames(catalogue.Full()) }

func scenarioNames() []string {
	return wording.Names(fault.Scenarios(), func(sc fault.Scenario) string { return sc.Name })
}

// specNames are strategies, and each lock under the two that take any.
func specNames() []string {
	c := catalogue.Full()
	names := c.StrategyNames()
	for _, name := range c.LockNames() {
		names = append(names, "fine:"+name, "coarse:"+name)
	}
	return names
}

// oneOf offers the names that begin with what was typed after the last comma. They are
// collected when a shell asks for them: every other command would wait for it.
func oneOf(kinds ...func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) (all []string, _ cobra.ShellCompDirective) {
		var names []string
		for _, kind := range kinds {
			names = append(names, kind()...)
		}

		before := typed[:strings.LastIndex(typed, ",")+1]
		for _, name := range names {
			if strings.HasPrefix(before+name, typed) {
				all = append(all, before+name)
			}
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	}
}

// newRoot makes the command with its subcommands. Errors are printed by main, in one way for
// all, and not by cobra.
func newRoot(p *program) *cobra.Command {
	root := &cobra.Command{
		Use:           "marketsim",
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       fmt.Sprintf("%s %s %s/%s", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH),
		Args:          unknownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },

		SuggestionsMinimumDistance: 2,
	}
	root.SetFlagErrorFunc(explainFlag)
	root.SetHelpCommand(newHelp(root))
	usage, _ := helpFiles.ReadFile("help/usage.tmpl")
	root.SetUsageTemplate(string(usage))
	root.CompletionOptions.HiddenDefaultCmd = true

	commands := []*cobra.Command{newReproduce(p), newRun(p), newCompare(p), newSweep(p), newCheck(p), newFaults(p),
		newExplore(p), newJudge(p), newAdapter(p), newList(p), newReport(p), newClean(p)}
	root.AddCommand(commands...)

	// After all flags are known: texts from help/, completion, and refusal of a flag given twice.
	for _, cmd := range append(commands, root) {
		explain(cmd)
		complete(cmd)
		takeOne(cmd.Flags())
	}
	return root
}

// newHelp is the command help of root. cobra's own exits with 0 if there is no such command.
func newHelp(root *cobra.Command) *cobra.Command {
	help := &cobra.Command{Use: "help [COMMAND]", Short: "Help about a command"}
	help.RunE = func(_ *cobra.Command, words []string) error {
		cmd, rest, err := root.Find(words)
		switch {
		case err == nil && cmd == root:
			err = unknownCommand(root, rest)
		case err == nil && len(rest) > 0:
			err = fmt.Errorf("help takes one command, and %q is beside %s", rest[0], cmd.Name())
		}
		if err != nil {
			return usageError{err}
		}

		cmd.InitDefaultHelpFlag() // cobra does so only for a command that it executes
		return cmd.Help()
	}
	return help
}

// The annotation of a command with its flags in groups, as help shows them. help/usage.tmpl reads
// it by this name, and repeats helpWidth for commands without groups.
const flagUsages = "flags"

const helpWidth = 100 // columns; a test holds the texts to it, too

// group gives cmd the flags that define makes. Help shows them under the heading, in the order in
// which define adds them, and groups in the order of the calls. A flag that cmd gets elsewhere is
// not shown.
func group(cmd *cobra.Command, heading string, define func(*pflag.FlagSet)) {
	flags := pflag.NewFlagSet(heading, pflag.ContinueOnError)
	flags.SortFlags = false
	define(flags)

	// Before the lines below are made: see switchValue.
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "bool" {
			f.Value = switchValue{f.Value}
		}
	})
	shown := fmt.Sprintf("%s\n%s:\n%s", cmd.Annotations[flagUsages], heading, flags.FlagUsagesWrapped(helpWidth))
	cmd.Annotations = map[string]string{flagUsages: shown}
	cmd.Flags().AddFlagSet(flags)
}

// A switchValue is a flag without a value, which pflag shows as --name[=true|false] unless
// it hides that it is one.
type switchValue struct{ pflag.Value }

// version is the module's, which names the commit if the program was built in a
// repository; 'go run' records none.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// credentials are user and password of a URL, or of what looks like the rest of one.
var credentials = regexp.MustCompile("(?:(\\w+://)[^\\s\"`]*:[^\\s\"`]*|[^\\s'\"`=:]*:[^\\s'\"`]*)@")

func withoutPasswords(text string) string { return credentials.ReplaceAllString(text, "${1}...@") }

// secretsPattern matches the values after names such as "token", in a command of --exec.
var secretsPattern = regexp.MustCompile(`(?i)([\w-]*(?:passw|secret|token|auth|key)[\w-]*[=\s]+)\S+`)

// commandLine is what was typed, to be pasted into a shell, without passwords, without
// secrets in the command of --exec, and without folders of this machine, except those that
// it takes to run again what --exec, --script and --server name.
func (p *program) commandLine() string {
	again := []string{"--script", "--server"} // what they name is read or started again
	words := []string{strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")}

	// The value of a flag stands behind "=" or is the next argument.
	for i, arg := range p.args {
		flag, value, _ := strings.Cut(arg, "=")
		switch {
		case flag == "--exec", i > 0 && p.args[i-1] == "--exec":
			arg = secretsPattern.ReplaceAllString(arg, "$1...")
		case slices.Contains(again, flag), i > 0 && slices.Contains(again, p.args[i-1]):
		case filepath.IsAbs(arg):
			arg = filepath.Base(arg)
		case filepath.IsAbs(value):
			arg = flag + "=" + filepath.Base(value)
		}
		words = append(words, process.ShellLine(withoutPasswords(p.passwords.hide(arg))))
	}
	return strings.Join(words, " ")
}

// withoutSecrets returns err without passwords, whether in URLs or repeated by the
// server, and without terminal codes. Of what is very long it shows the ends. What it returns
// wraps err, whose kind exitCode needs.
func (p *program) withoutSecrets(err error) error {
	if err == nil {
		return nil
	}
	// Passwords first, so that of one that is cut in two neither half is shown.
	const most = 4 * wording.ExcerptBytes
	text := wording.Ends(p.passwords.hide(err.Error()), 16*most)
	lines := strings.Split(printable(withoutPasswords(text)), "\n")

	for i, line := range lines {
		lines[i] = wording.Ends(line, wording.ExcerptBytes)
	}
	return reworded{wording.Ends(strings.Join(lines, "\n"), most), err}
}

// printable is a text, perhaps from a file, without the codes that move a
// terminal's cursor.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return '?'
	}, text)
}

type reworded struct {
	text string
	error
}

func (e reworded) Error() string { return e.text }
func (e reworded) Unwrap() error { return e.error }
