package redisconn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// InfoFields returns the "name:value" lines of one section of INFO.
func (c *Conn) InfoFields(ctx context.Context, section string) (map[string]string, error) {
	text, err := c.Client.Info(ctx, section).Result()
	if err != nil {
		return nil, fmt.Errorf("asking for INFO %s: %w", section, Explain(err))
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// Closers are closed together.
type Closers []io.Closer

// Close closes the last one first.
func (c Closers) Close() error {
	var errs []error
	for _, closer := range slices.Backward(c) {
		errs = append(errs, closer.Close())
	}
	return errors.Join(errs...)
}
