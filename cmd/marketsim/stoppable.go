package main

import (
	"bytes"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// hurry limits how long each write from now on waits for its reader.
func (p *program) hurry() {
	for _, w := range []io.Writer{p.stdout, shownBy(p.stderr)} {
		if w, ok := w.(*stoppableWriter); ok {
			w.hurryOnce.Do(func() { close(w.hurried) })
		}
	}
}

// moment is how long a reader may read nothing after an interruption, before the
// rest of the output is dropped.
const moment = 2 * time.Second

// A stoppableWriter writes to a reader that may be slow. After a signal it waits a moment at
// most: a market must be removed.
type stoppableWriter struct {
	to        *os.File
	waits     time.Duration // a moment
	hurried   chan struct{} // closed at the first signal
	hurryOnce sync.Once
	unread    atomic.Bool // a write was given up: nothing more is written

	mu    sync.Mutex // held while something is written
	erase string     // what removes the line that show wrote last; empty: there is none
}

func newStoppableWriter(to *os.File) *stoppableWriter {
	return &stoppableWriter{to: to, waits: moment, hurried: make(chan struct{})}
}

// Fd tells callers of package term whether this is a terminal, and how wide it is.
func (p *stoppableWriter) Fd() uintptr { return p.to.Fd() }

const clearLine = "\r\x1b[K" // removes a terminal's last line

// show writes a line to a terminal, where the next write replaces it by writing erase.
func (p *stoppableWriter) show(line, erase string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.erase = erase
	_, _ = p.write([]byte(erase + line)) // nothing depends on it
}

// Write writes in pieces, to tell a slow reader from one that has stopped. Of no bytes it still
// removes the line that show wrote, as output.finish needs.
func (p *stoppableWriter) Write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.erase != "" {
		_, _ = p.write([]byte(p.erase))
		p.erase = ""
	}

	const piece = 4096
	for part := range slices.Chunk(b, piece) {
		// A write that was given up may read it after Write has returned.
		one, err := p.write(bytes.Clone(part))
		n += one
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// write writes, and waits until it is read or, once the command is in a hurry, for p.waits. Who
// does not read by then gets nothing more: the write under way stays blocked in its goroutine.
// Its callers hold p.mu, and give it bytes that nobody changes afterwards.
func (p *stoppableWriter) write(b []byte) (int, error) {
	if p.unread.Load() {
		return 0, errUnread
	}

	var n int
	var err error
	written := make(chan struct{})
	go func() {
		n, err = p.to.Write(b)
		close(written)
	}()

	select {
	case <-written:
		return n, err
	case <-p.hurried:
	}

	// n and err belong to the goroutine until written is closed.
	select {
	case <-written:
		return n, err
	case <-time.After(p.waits):
		p.unread.Store(true)
		return 0, errUnread
	}
}
