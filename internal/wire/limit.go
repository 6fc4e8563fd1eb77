package wire

import (
	"bytes"
	"fmt"
)

// What a server may say. Redis itself stays far below: its lines are names, numbers and
// errors, and nothing that is read of a market is nearly as large as the longest here.
const (
	longestLine  = 1 << 20    // bytes of a line that is no error
	longestError = 16 << 20   // bytes of an error, of which shownError are passed on
	shownError   = 4 << 10    // bytes, the mark at the end included
	mostAtOnce   = 10_000_000 // bytes of a string, elements of arrays that are still to come
	deepest      = 64         // arrays within arrays
)

// CutMark ends an error that was cut.
const CutMark = "... (cut here)"

// A ReplyLimit follows what a server says and refuses what would make a client take
// memory without end: clients keep a line until it ends, allocate a string or an array as
// soon as they know how long it is, and call themselves for each array within another.
// Long errors are cut. It keeps nothing of what passes, and allocates nothing. The zero
// value is for a connection that begins.
type ReplyLimit struct {
	kind   byte  // of the line under way; 0: none is
	line   int   // bytes of it so far
	length int64 // that it announces
	null   bool  // it announces less than nothing

	body int64 // bytes of a string that are still to come, with the end of its line

	arrays [deepest]int64 // elements that are still to come, of each array that is open
	depth  int
	open   int64 // their sum
}

// Pass takes what was just read, and returns what of it is passed on, which begins where data
// does: Read, which calls this, returns only how long it is. The error says what the server
// did; the connection is then of no more use.
func (l *ReplyLimit) Pass(data []byte) (passed []byte, err error) {
	// No more is passed on than was read, so that append overwrites nothing that is still to be
	// read.
	passed = data[:0]
	for len(data) > 0 {
		if l.body > 0 { // what a line has announced is passed on as it is
			n := min(l.body, int64(len(data)))
			passed = append(passed, data[:n]...)
			data = data[n:]
			l.body -= n
			continue
		}

		piece := data
		ended := false
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			piece = data[:end+1]
			ended = true
		}
		data = data[len(piece):]
		passed, err = l.inLine(passed, piece, ended)
		if err == nil && ended {
			err = l.endLine()
		}
		if err != nil {
			return nil, err
		}
	}
	return passed, nil
}

// inLine passes on a piece of a line, which may be its end, and reads what it announces.
func (l *ReplyLimit) inLine(passed, piece []byte, ends bool) ([]byte, error) {
	if l.kind == 0 {
		l.kind = piece[0]
	}
	if announces(l.kind) {
		l.count(piece)
	}

	from := l.line
	l.line += len(piece)
	if l.kind == '-' {
		if l.line > longestError {
			const refused = "the server sent an error of more than %d MB that does not end"
			return nil, fmt.Errorf(refused, longestError>>20)
		}
		return cut(passed, piece, from, ends), nil
	}
	if l.line > longestLine {
		return nil, fmt.Errorf("the server sent a line of more than %d MB that does not end", longestLine>>20)
	}
	return append(passed, piece...), nil
}

// cut passes on the piece of an error that begins at a position of its line: what is
// within shownError as it is, then the mark in place of as many bytes, then nothing but
// the end of the line. A carriage return at the end of a piece may belong to that.
func cut(passed, piece []byte, from int, ends bool) []byte {
	const marked = shownError - len(CutMark)
	last := len(piece) - 1
	for i, b := range piece {
		at := from + i
		switch {
		case at < marked, ends && i >= last-1, i == last && b == '\r':
			passed = append(passed, b)
		case at < shownError:
			passed = append(passed, CutMark[at-marked])
		}
	}
	return passed
}

// announces reports whether a line of this kind says how much follows it.
func announces(kind byte) bool { return bytes.IndexByte([]byte("$=!*~>%|"), kind) >= 0 }

// count reads the digits of a length. What is no number is no length: the client
// refuses it.
func (l *ReplyLimit) count(piece []byte) {
	for _, b := range piece {
		switch {
		case b == '-':
			l.null = true
		case b >= '0' && b <= '9' && l.length <= mostAtOnce:
			l.length = 10*l.length + int64(b-'0')
		}
	}
}

// endLine notes what the line that has ended announces.
func (l *ReplyLimit) endLine() error {
	kind, length, null := l.kind, l.length, l.null
	if null {
		length = 0
	}
	l.kind = 0
	l.line = 0
	l.length = 0
	l.null = false

	// An attribute comes before the value that it describes, and counts as none.
	if kind != '|' && l.depth > 0 {
		l.arrays[l.depth-1]--
		l.open--
	}

	switch kind {
	case '$', '=', '!':
		if length > mostAtOnce {
			const refused = "the server announces a string of more than %d million bytes"
			return fmt.Errorf(refused, mostAtOnce/1_000_000)
		}
		if !null {
			l.body = length + int64(len("\r\n"))
		}
	case '%', '|':
		length *= 2
		fallthrough
	case '*', '~', '>':
		if err := l.enter(length); err != nil {
			return err
		}
	}

	// An array was counted in the one around it when it began: several may end at once.
	for l.depth > 0 && l.arrays[l.depth-1] == 0 {
		l.depth--
	}
	return nil
}

// enter notes that an array begins.
func (l *ReplyLimit) enter(elements int64) error {
	switch {
	case elements == 0:
		return nil
	case l.open+elements > mostAtOnce:
		return fmt.Errorf("the server announces more than %d million elements", mostAtOnce/1_000_000)
	case l.depth == deepest:
		return fmt.Errorf("the server sent more than %d arrays within each other", deepest)
	}
	l.arrays[l.depth] = elements
	l.depth++
	l.open += elements
	return nil
}
