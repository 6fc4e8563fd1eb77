package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/marketsim/marketsim/bench/history"
)

// unsafeInNames is what is not wanted in the name of a folder.
var unsafeInNames = regexp.MustCompile(`[^A-Za-z0-9.,=+_-]+`)

// historyDirs names a folder for the history of each row: the one that was asked for if there is one row, else one in it
// a row. It refuses a folder that already holds a history, and makes sure that others can be made.
func historyDirs(root string, traders []trader) ([]string, error) {
	if root == "" {
		return make([]string, len(traders)), nil
	}
	switch _, err := history.Find(root); {
	case err == nil:
		return nil, usageError{fmt.Errorf("--history: %w: %s", history.ErrExists, root)}
	case !errors.Is(err, history.ErrNone):
		return nil, usageError{fmt.Errorf("--history: %w", err)}
	}
	if err := os.MkdirAll(root, 0o777); err != nil {
		return nil, usageError{fmt.Errorf("--history: %w", err)}
	}
	if err := probe(root); err != nil {
		return nil, usageError{fmt.Errorf("--history: %w", err)}
	}
	if len(traders) == 1 {
		return []string{root}, nil
	}
	var dirs []string
	for i, t := range traders {
		name := unsafeInNames.ReplaceAllString(t.spec.String(), "_")
		dirs = append(dirs, filepath.Join(root, fmt.Sprintf("%02d-%s-%s", i+1, name, t.mix)))
	}
	return dirs, nil
}
