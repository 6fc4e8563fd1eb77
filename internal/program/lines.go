package program

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/marketsim/marketsim/internal/wording"
)

// longestLine is how many bytes of a line are kept.
const longestLine = 64 << 10

// readLines calls each with every line of what is read, without the space around it. Of
// one that is too long it gets the beginning, and is told that it was cut. What is read
// without the end of a line is noted in unended, unless that is nil.
func readLines(from io.Reader, unended *unendedLine, each func(line string, cut bool)) {
	if unended != nil {
		from = io.TeeReader(from, unended)
	}
	lines := bufio.NewReaderSize(from, longestLine)
	for {
		line, err := lines.ReadSlice('\n')
		text := strings.TrimSpace(string(line))
		cut := errors.Is(err, bufio.ErrBufferFull)
		if len(line) > 0 {
			each(text, cut)
		}

		// The rest of a long line belongs to it.
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if err != nil {
			return
		}
	}
}

// An unendedLine is what was written since the last end of a line: the beginning of it.
type unendedLine struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer.
func (u *unendedLine) Write(b []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	rest := b
	if end := strings.LastIndexByte(string(b), '\n'); end >= 0 {
		u.text = nil
		rest = b[end+1:]
	}
	room := wording.ExcerptBytes - len(u.text)
	u.text = append(u.text, rest[:min(max(0, room), len(rest))]...)
	return len(b), nil
}

// explanation says what is written, as the end of an error's text. Empty: nothing is.
func (u *unendedLine) explanation() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.text) == 0 {
		return ""
	}
	return fmt.Sprintf(`; it has said %s without the end of a line, which is "\n"`, strconv.Quote(string(u.text)))
}
