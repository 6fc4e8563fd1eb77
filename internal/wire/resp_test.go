package wire

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestReadCommand(t *testing.T) {
	for _, tc := range []struct {
		in    string
		words []string
		err   error
	}{
		{"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n", []string{"get", "a\r\n"}, nil},
		{"PING  hello\r\n", nil, errProtocol},
		{"\r\n", nil, errProtocol},
		{"*0\r\n", nil, errProtocol},
		{"*1\r\n$-1\r\n", nil, errProtocol},
		{"*1\r\n:1\r\n", nil, errProtocol},
		{"*x\r\n", nil, errProtocol},
		{"*1\r\n$536870913\r\n", nil, errProtocol},
		{"*2\r\n$3\r\nGET\r\n", nil, io.EOF},
		{"*1\r\n$3\r\nGE", nil, io.ErrUnexpectedEOF},
	} {
		c, err := readCommand(bufio.NewReader(strings.NewReader(tc.in)))
		if err != tc.err || !slices.Equal(c.values, tc.words) || err == nil && string(c.raw) != tc.in {
			t.Errorf("%q is %q %q, %v", tc.in, c.values, c.raw, err)
		}
	}
}

func TestReadReply(t *testing.T) {
	for _, text := range []string{
		"+OK\r\n", "-ERR x\r\n", ":1\r\n", "$-1\r\n", "*-1\r\n", "$5\r\na\r\nbc\r\n", "*0\r\n",
		"_\r\n", ",1.5\r\n", "#t\r\n",
		"(12\r\n", "=7\r\ntxt:abc\r\n", "!3\r\nERR\r\n", "~1\r\n:1\r\n",
		"*3\r\n*2\r\n:1\r\n$1\r\na\r\n%1\r\n+k\r\n*1\r\n_\r\n:3\r\n",
		"|1\r\n+k\r\n*1\r\n:1\r\n:2\r\n",
		">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n",
	} {
		in := bufio.NewReader(strings.NewReader(text + "+next\r\n"))
		r, err := readReply(in)
		if err != nil || string(r.raw) != text {
			t.Errorf("%q is read as %q, %v", text, r.raw, err)
		}
		if next, err := readReply(in); err != nil || string(next.raw) != "+next\r\n" {
			t.Errorf("%q is followed by %q, %v", text, next.raw, err)
		}
		if _, err := readReply(bufio.NewReader(strings.NewReader(text[:len(text)-1]))); err == nil {
			t.Errorf("%q without its last byte is read", text)
		}
	}

	for _, text := range []string{"?\r\n", "*x\r\n", "\r\n", "$536870913\r\n"} {
		if _, err := readReply(bufio.NewReader(strings.NewReader(text))); err != errProtocol {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestRepliesOfPipelinedSubscriptions(t *testing.T) {
	var a answers
	last := &Trap{}
	a.expect([]string{"subscribe", "a", "b"}, nil)
	a.expect([]string{"subscribe", "c"}, nil)
	a.expect([]string{"subscribe", "refused", "once"}, nil)
	a.expect([]string{"ping"}, last)

	confirmation := message{raw: []byte(">"), values: []string{"subscribe"}}
	pushed := message{raw: []byte(">"), values: []string{"message"}}
	for i, r := range []message{confirmation, confirmation, pushed, confirmation, {raw: []byte("-")}} {
		if lost, _, isPush := a.match(r); lost != nil || isPush != slices.Contains(r.values, "message") {
			t.Errorf("reply %d: trap %v, pushed %v", i, lost, isPush)
		}
		if want := []int{4, 3, 3, 2, 1}[i]; len(a.queue) != want {
			t.Errorf("after reply %d, %d commands wait, want %d", i, len(a.queue), want)
		}
	}

	if lost, _, _ := a.match(message{raw: []byte("*"), values: []string{"pong"}}); lost != last {
		t.Errorf("the reply to PING belongs to %v", lost)
	}
}
