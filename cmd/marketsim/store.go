package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// probe makes sure that files can be made in a folder.
func probe(dir string) error {
	f, err := os.CreateTemp(dir, ".marketsim-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// store replaces a file in one step, so that a reader never sees half of it.
func store(path string, write func(io.Writer) error) error {
	var content bytes.Buffer
	if err := write(&content); err != nil {
		return err
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link stays one
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, content.Bytes(), 0o666)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".marketsim-*")
	if err != nil {
		return fmt.Errorf("store result: %w", err)
	}
	_, err = f.Write(content.Bytes())
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("store result: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
