package wire

import (
	"bufio"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
)

// passed is what a client gets of what a server said, read in pieces of some size.
func passed(sent string, size int) (string, error) {
	var limit ReplyLimit
	var all strings.Builder
	for sent != "" {
		piece := []byte(sent[:min(size, len(sent))])
		sent = sent[len(piece):]
		got, err := limit.Pass(piece)
		if err != nil {
			return all.String(), err
		}
		all.Write(got)
	}
	return all.String(), nil
}

// What clients read passes unchanged, in pieces of any size. What would have them take memory
// without end is refused.
func TestReplyLimit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	manyLines := strings.Repeat(strings.Repeat("y", 1000)+"\r\n", 3000)

	for _, c := range []struct{ name, sent, refused string }{
		{"what clients read",
			"+OK\r\n:1\r\n$-1\r\n$0\r\n\r\n$5\r\na\r\nbc\r\n*-1\r\n*0\r\n*2\r\n:1\r\n%1\r\n+a\r\n_\r\n", ""},
		{"pairs",
			"*3\r\n" + strings.Repeat("*2\r\n$1\r\na\r\n,1.5\r\n", 3) + strings.Repeat(":1\r\n", 5), ""},
		{"attributes", "*1\r\n|1\r\n+ttl\r\n:3\r\n+a\r\n*1\r\n:1\r\n", ""},
		{"a string that looks like lengths", "$16\r\n*99999999999999\n\r\n:1\r\n", ""},
		{"a long string", "$3006000\r\n" + manyLines + "\r\n:1\r\n", ""},
		{"HTTP", "HTTP/1.1 400 Bad Request\r\n\r\n", ""},
		{"one array after the other", strings.Repeat("*2\r\n*1\r\n:1\r\n:2\r\n", 3000), ""},
		{"a line without end", "+" + long, "a line of more than 1 MB"},
		{"a line of another protocol without end", "x" + long, "a line of more than 1 MB"},
		{"an error without end", "-" + strings.Repeat(long, 17), "an error of more than 16 MB"},
		{"a string of 2 GB", "*2\r\n:1\r\n$2000000000\r\n", "a string of more than 10 million bytes"},
		{"an array of 2 billion", "*2000000000\r\n", "more than 10 million elements"},
		{"a number beyond all", "*" + strings.Repeat("9", 100) + "\r\n", "more than 10 million elements"},
		{"a map", "%9000000\r\n", "more than 10 million elements"},
		{"arrays that are long together", "*9000000\r\n*9000000\r\n", "more than 10 million elements"},
		{"arrays within arrays", strings.Repeat("*1\r\n", 100), "more than 64 arrays within each other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sizes := []int{1, 3, 4096, len(c.sent)}
			if len(c.sent) > longestError { // which a byte at a time takes a second
				sizes = sizes[2:]
			}

			for _, size := range sizes {
				got, err := passed(c.sent, size)
				switch {
				case c.refused == "" && (err != nil || got != c.sent):
					t.Errorf("in pieces of %d: passed %d of %d bytes, %v", size, len(got), len(c.sent), err)
				case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
					t.Errorf("in pieces of %d: %v, want that it says %q", size, err, c.refused)
				}
			}
		})
	}
}

// TestLongErrorsAreCut: what a client gets of an error ends in a mark and as a line, and
// what follows is untouched, however it is read.
func TestLongErrorsAreCut(t *testing.T) {
	t.Parallel()
	for _, length := range []int{10, shownError - 20, shownError - 3, shownError, shownError + 1, 1 << 20} {
		sent := "-ERR " + strings.Repeat("x", length) + "\r\n"
		for _, size := range []int{1, 2, 4096, 5000, 1 << 21} {
			got, err := passed(sent+":1\r\n", size)

			text, rest, _ := strings.Cut(got, "\n")
			fits := len(text) <= shownError+1 && strings.HasSuffix(text, "\r")
			whole := text+"\n" == sent
			marked := strings.HasSuffix(text, CutMark+"\r")
			isCut := length < 4000 && !whole || length > shownError && !marked
			if err != nil || rest != ":1\r\n" || !fits || isCut {
				t.Errorf("%d bytes in pieces of %d: %d bytes that end in %q, then %q, %v", length, size, len(text),
					text[max(0, len(text)-20):], rest, err)
			}
		}
	}
}

func TestReplyLimitAllocatesNothing(t *testing.T) {
	var limit ReplyLimit
	sent := []byte("*2\r\n$3\r\nabc\r\n:1\r\n+OK\r\n")
	pass := func() {
		if got, err := limit.Pass(sent); err != nil || len(got) != len(sent) {
			t.Error(got, err)
		}
	}
	if n := testing.AllocsPerRun(100, pass); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestReadLineStops before a line without end has taken all memory.
func TestReadLineStops(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := readReply(bufio.NewReader(io.MultiReader(strings.NewReader("+"), zeros{})))
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, errProtocol) || grown > 200<<20 {
		t.Errorf("%v after %d MB", err, grown>>20)
	}
}

// zeros never end, and hold no end of a line.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
