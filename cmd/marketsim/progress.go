package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/marketsim/marketsim/internal/view"
)

const usualWidth = 80 // of a terminal that does not say how wide it is

// widthOf is how many columns a terminal has; false: w is none.
func widthOf(w io.Writer) (columns int, is bool) {
	f, is := w.(interface{ Fd() uintptr })
	if !is || !term.IsTerminal(int(f.Fd())) {
		return 0, false
	}
	columns, _, _ = term.GetSize(int(f.Fd()))
	return cmp.Or(columns, usualWidth), true
}

// replaceable is stderr where a line can take the place of the one before: on a terminal
// that understands the codes for that. Else it is nil.
func (p *program) replaceable() (w *stoppableWriter, columns int) {
	w, _ = shownBy(p.stderr).(*stoppableWriter)
	columns, is := widthOf(shownBy(p.stderr))
	if w == nil || !is || os.Getenv("TERM") == "dumb" {
		return nil, 0
	}
	return w, columns
}

// notice prints a line about what a command does, which --quiet leaves out.
func (p *program) notice(format string, args ...any) {
	if !p.quiet {
		fmt.Fprintf(p.stderr, format+"\n", args...)
	}
}

// progress prints how far a command is. On a terminal what is printed next takes its place.
func (p *program) progress(format string, args ...any) {
	w, columns := p.replaceable()
	if w == nil || p.quiet {
		p.notice(format, args...)
		return
	}
	line := p.passwords.hide(fmt.Sprintf(format, args...))
	w.show(fmt.Sprintf("%.*s", columns-1, line), erasing(columns))
}

// erasing is what removes the last line of a terminal with so many columns. NO_COLOR asks
// for none of the codes of terminals; whoever sets it sees the line all the same.
func erasing(columns int) string {
	if os.Getenv("NO_COLOR") != "" {
		return "\r" + strings.Repeat(" ", columns-1) + "\r"
	}
	return clearLine
}

// advance prints what was just done, and how far the command is. A terminal keeps what was
// done, in lines as wide as it is.
func (p *program) advance(done, all int, left time.Duration, what string) {
	columns, is := widthOf(shownBy(p.stderr))
	if !is || p.quiet {
		p.notice("%d/%d (about %s left) %s", done, all, left, what)
		return
	}
	// A terminal that cannot be written to gets nothing else either.
	_ = view.Terminal(p.stderr, &view.Doc{Title: fmt.Sprintf("%d/%d %s", done, all, what)}, columns)
	if done < all {
		p.progress("%d of %d done, about %s left", done, all, left)
	}
}
