// Package param describes the parameters of a spec such as
// "fine:setnx:poll=2ms", and holds their values.
package param

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Role is what a duration is for, where tests and scenarios set it for all
// locks and strategies alike.
type Role int

// The roles. The zero value is none of them.
const (
	// How long somebody who does not come back holds the lock, or keeps others
	// out, at most.
	Lease   Role = iota + 1
	Timeout      // how long an operation, or the acquisition of a lock, may take
	Poll         // the wait between two attempts
)

// Param is one parameter. Its value is text in a normal form, so that equal
// settings are spelled alike.
type Param struct {
	Name    string
	Role    Role
	Default string // in normal form
	Summary string // one line, with the unit

	// Returns the normal form, or an error that says what is allowed.
	Normalize func(value string) (string, error)
}

const longest = 24 * time.Hour // servers keep times too, some of them as milliseconds in 32 bits

// Duration is a parameter that is a time of at least min and at most a day, for
// example "10s".
func Duration(name string, def, min time.Duration, summary string) Param {
	return Param{
		Name: name, Default: def.String(), Summary: summary,
		Normalize: func(value string) (string, error) {
			d, err := time.ParseDuration(value)
			if err != nil {
				return "", fmt.Errorf("%q is not a duration such as 500ms or 10s", value)
			}
			if d < min || d > longest {
				return "", fmt.Errorf("%s is not from %s to %s", d, min, longest)
			}
			return d.String(), nil
		},
	}
}

// As is the parameter with a role.
func (p Param) As(role Role) Param {
	p.Role = role
	return p
}

// Or is the parameter with a word as its default, and as one more value.
func (p Param) Or(word string) Param {
	other := p.Normalize
	p.Default = word
	p.Normalize = func(value string) (string, error) {
		if value == word {
			return word, nil
		}
		return other(value)
	}
	return p
}

// OneOf is a parameter that is one of some words; the first is the default.
func OneOf(name, summary string, words ...string) Param {
	return Param{
		Name: name, Default: words[0], Summary: summary,
		Normalize: func(value string) (string, error) {
			if !slices.Contains(words, value) {
				return "", fmt.Errorf("%q is not one of %s", value, strings.Join(words, ", "))
			}
			return value, nil
		},
	}
}

// Count is a parameter that is a whole number of at least min.
func Count(name string, def, min int, summary string) Param {
	return Param{
		Name: name, Default: strconv.Itoa(def), Summary: summary,
		Normalize: func(value string) (string, error) {
			n, err := strconv.Atoi(value)
			if err != nil || n < min {
				return "", fmt.Errorf("%q is not a whole number of at least %d", value, min)
			}
			return strconv.Itoa(n), nil
		},
	}
}

// Fraction is a parameter that is a number from 0 to 1; def is in normal form.
func Fraction(name, def, summary string) Param {
	return Param{
		Name: name, Default: def, Summary: summary,
		Normalize: func(value string) (string, error) {
			f, err := strconv.ParseFloat(value, 64)
			if err != nil || !(f >= 0 && f <= 1) { // NaN is neither
				return "", fmt.Errorf("%q is not a number from 0 to 1", value)
			}
			return strconv.FormatFloat(f, 'f', -1, 64), nil
		},
	}
}

// Values are the parameters given in a spec, in normal form. Those at their
// default are absent.
type Values map[string]string

// parsed panics if p is a parameter of another kind: values are checked when a
// spec is parsed.
func parsed[T any](v Values, p Param, what string, parse func(string) (T, error)) T {
	value, err := parse(v.Text(p))
	if err != nil {
		panic(fmt.Sprintf("param %s is not a %s: %v", p.Name, what, err))
	}
	return value
}

// Duration returns the value of a parameter made by Duration. It panics if p is not such a
// parameter, or is the word of Or.
func (v Values) Duration(p Param) time.Duration {
	return parsed(v, p, "duration", time.ParseDuration)
}

// Count returns the value of a parameter made by Count. It panics if p is not such a
// parameter, or is the word of Or.
func (v Values) Count(p Param) int { return parsed(v, p, "number", strconv.Atoi) }

// Fraction returns the value of a parameter made by Fraction. It panics if p is
// not such a parameter.
func (v Values) Fraction(p Param) float64 {
	return parsed(v, p, "number", func(text string) (float64, error) {
		return strconv.ParseFloat(text, 64)
	})
}

// Text returns the value of a parameter in normal form.
func (v Values) Text(p Param) string { return cmp.Or(v[p.Name], p.Default) }
