// Package stored is what all that marketsim stores has in common: how a run ended,
// and how a file is read that somebody else may have written or cut short. What the
// files hold is told by those who store it: package internal/runs for measurements,
// package internal/findings for findings.
package stored

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Status is how a run or a row ended.
type Status string

// The statuses, of a run and of a row: untyped, because a Row's is a string.
const (
	Complete    = "complete"
	Incomplete  = "incomplete"  // the environment failed: what was measured until then is kept
	Interrupted = "interrupted" // the user stopped it
)

// Check refuses what is no status.
func (s Status) Check() error {
	if !slices.Contains([]Status{Complete, Incomplete, Interrupted}, s) {
		return fmt.Errorf("unknown status %q", string(s))
	}
	return nil
}

// MaxBytes is how many bytes a stored result has at most.
const MaxBytes = 192 << 20

// Open opens a stored file that is no larger than this. It refuses what is no regular
// file: a pipe may have no end.
func Open(path string, most int64) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a file", path)
	case info.Size() > most:
		return nil, fmt.Errorf("%s is larger than %d MiB, the most that is read", path, most>>20)
	}
	return os.Open(path)
}

// Encode writes JSON, each level indented by indent; if it is empty, in one line.
func Encode(w io.Writer, what string, all any, indent string) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", indent)
	if err := enc.Encode(all); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

// Decode reads one JSON value, of which command makes another, and says in
// words what is wrong with it.
func Decode(r io.Reader, into any, command string) error {
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	switch {
	case err != nil:
		return err
	case len(text) > MaxBytes:
		return fmt.Errorf("it is larger than %d MiB, and no result of marketsim", MaxBytes>>20)
	}
	return Unmarshal(text, into, command)
}

// Unmarshal is Decode of a text. A field that into does not have is an error: what was
// damaged would be read as if it were not there. The rest is read all the same, so that a
// version in it can tell who wrote it.
func Unmarshal(text []byte, into any, command string) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return fmt.Errorf("it is empty; make it again with '%s'", command)
	}

	// What encoding/json says of a file is told as what has become of the file.
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(into)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("it is cut short; make it again with '%s'", command)
	case errors.As(err, &kind):
		return fmt.Errorf("%s is a JSON %s, which is the wrong type", cmp.Or(kind.Field, "the whole"), kind.Value)
	case err != nil:
		if field, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
			return fmt.Errorf("the field %s is unknown: the file was damaged or edited, or was stored by another version "+
				"of marketsim: read it with that one", field)
		}
		return fmt.Errorf("it is not JSON: %w", err)
	}

	if _, err := dec.Token(); err != io.EOF {
		return errors.New("data after the end of the result")
	}
	return nil
}
