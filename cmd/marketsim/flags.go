package main

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/internal/wording"
)

// What all commands ask of their flags and arguments, and how they say what is wrong.

// errTwice is about a flag that is given again, and does not take a list.
var errTwice = errors.New("given twice")

// A singleValue is the value of a flag that takes one: a second is refused, because the last of
// two would win silently. A switch may be repeated.
type singleValue struct {
	pflag.Value
	isSet bool
}

func (v *singleValue) Set(text string) error {
	before := v.String()
	if err := v.Value.Set(text); err != nil {
		return err
	}
	if repeated := v.Type() == "bool" && v.String() == before; v.isSet && !repeated {
		return errTwice
	}
	v.isSet = true
	return nil
}

// takeOne has each flag that is no list refuse a second value.
func takeOne(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if _, isList := f.Value.(pflag.SliceValue); !isList {
			f.Value = &singleValue{Value: f.Value}
		}
	})
}

// explainFlag says in the user's words what is wrong with a flag, and what it takes. It
// does not repeat the values of lists, which may be URLs with passwords.
func explainFlag(cmd *cobra.Command, err error) error {
	if unknown, is := errors.AsType[*pflag.NotExistError](err); is {
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		// -redis is five short flags, of which pflag names one
		typed := cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName())
		if near := wording.Nearest(typed, known); near != "" {
			return fmt.Errorf("%w; did you mean --%s?", err, near)
		}
		return err
	}

	invalid, is := errors.AsType[*pflag.InvalidValueError](err)
	if !is {
		return err
	}
	name, value := "--"+invalid.GetFlag().Name, invalid.GetValue()
	if errors.Is(err, errTwice) {
		return fmt.Errorf("%s is given twice, and takes one value: leave one out", name)
	}
	// pflag does not say why a number is none.
	_, notNumber := strconv.ParseInt(value, 0, strconv.IntSize)
	tooLarge := errors.Is(notNumber, strconv.ErrRange)

	switch kind := invalid.GetFlag().Value.Type(); {
	case kind == "stringSlice":
		return fmt.Errorf("%s: want values separated by commas, without double quotes", name)
	case kind == "bool":
		return fmt.Errorf("%s %q: it stands alone, or is %[1]s=true or %[1]s=false", name, value)
	case kind == "duration":
		return fmt.Errorf("%s %q: want a time with its unit, such as 500us, 10ms or 2s", name, value)
	case kind == "uint64":
		return fmt.Errorf("%s %q: want a whole number from 0, such as 3", name, value)
	case strings.HasPrefix(kind, "int") && tooLarge:
		return fmt.Errorf("%s %q: the number is too large", name, value)
	case strings.HasPrefix(kind, "int"):
		return fmt.Errorf("%s %q: want a whole number, such as 3", name, value)
	}
	return err
}

// The annotation in which cobra notes the groups of flags that exclude each other.
const exclusiveGroups = "cobra_annotation_mutually_exclusive"

// checkFlags refuses flags that are missing, empty or exclude each other. It comes before
// cobra's own checks, which speak of groups.
func checkFlags(cmd *cobra.Command) error {
	// cobra notes in a flag's annotations that it is required, and the groups that it is in.
	var missing []string
	byGroup := map[string][]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Changed && f.Annotations[cobra.BashCompOneRequiredFlag] != nil {
			value, _ := pflag.UnquoteUsage(f)
			missing = append(missing, "--"+f.Name+" "+strings.ToUpper(value))
		}
		for _, group := range f.Annotations[exclusiveGroups] {
			if f.Changed {
				byGroup[group] = append(byGroup[group], "--"+f.Name)
			}
		}
	})

	if len(missing) > 0 {
		return usagef("%s is missing", english.WordSeries(missing, "and"))
	}
	for _, group := range slices.Sorted(maps.Keys(byGroup)) {
		if names := byGroup[group]; len(names) > 1 {
			return usagef("%s exclude each other: give one of them", english.WordSeries(names, "and"))
		}
	}
	return emptyFlags(cmd.Flags())
}

// emptyFlags refuses a flag with an empty value, or with an empty element of a list.
func emptyFlags(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if len(values) == 0 || slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" }) {
			err = usagef("--%s is empty, or has an empty element: give it a value, or leave it out", f.Name)
		}
	})
	return err
}

// words are arguments as the flags for the same take them: one by one, or separated by
// commas.
func words(args []string) (all []string) {
	for _, arg := range args {
		all = append(all, strings.Split(arg, ",")...)
	}
	return all
}

// noArguments refuses what a command without arguments is given.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usagef("%s takes flags only, and %q is none", cmd.CommandPath(), args[0])
}

// arguments wants from least to most arguments: what they are stands in a command's line
// of usage.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= least && len(args) <= most {
			return nil
		}
		return usagef("%s given: type marketsim %s", english.Plural(len(args), "argument is", "arguments are"), cmd.Use)
	}
}

// unknownCommand refuses a word in place of a command, and says which command may be
// meant.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}

	word := args[0]
	step := "'marketsim --help' names them"
	var near []string
	if !root.DisableSuggestions {
		near = root.SuggestionsFor(word)
	}
	if len(near) > 0 {
		step = fmt.Sprintf("did you mean %q?", near[0])
	} else if _, err := docsOf(word); err == nil {
		step = fmt.Sprintf("'marketsim list %s' tells what %[1]s is", word)
	}
	return usagef("unknown command %q; %s", word, step)
}
