package wire

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"regexp"
	"strings"
	"testing"
	"time"
)

// clockAt is a clock for which it is some second.
func clockAt(second int64, ahead time.Duration) *Clock {
	c := NewClock(ahead)
	c.now = func() time.Time {
		return time.Unix(second, 0)
	}
	return c
}

const second = 1_700_000_000 // now

// What is a time is moved, in each unit and each form, and no digit is lost.
func TestClockMovesTimes(t *testing.T) {
	for word, want := range map[string]string{
		"1700000000":              "1700003600",
		"1700000000.25":           "1700003600.25",
		"1700000000123":           "1700003600123",
		"1700000000123.000000001": "1700003600123.000000001",
		"1700000000123456":        "1700003600123456",
		"1700000000123456789":     "1700003600123456789",
		"(1700000000.1234567":     "(1700003600.1234567",
		"[1700000000":             "[1700003600",
		"1700000000000-0":         "1700003600000-0",
		"(1700000000000-7":        "(1700003600000-7",
		"1700000000000-*":         "1700003600000-*",
		"1.7e+18":                 "1.7000036e+18",
		"1.7000000001234567e+18":  "1.7000036001234567e+18",
		"1.70000000012345678e+09": "1.70000360012345678e+09",
		"1.7000000001235e15":      "1.7000036001235e15",
		"500":                     "500",
		"172800000":               "172800000",
		"01700000000":             "01700000000",
		"-1700000000":             "-1700000000",
		"1700000000-0":            "1700000000-0", // no stream has such an id
		"token:1700000000":        "token:1700000000",
		"1700000000 ":             "1700000000 ",
		"17000000001":             "17000000001",
		"99999999999999999999":    "99999999999999999999",
		"1.70e+09":                "1.70e+09",
		"1e99":                    "1e99",
		"":                        "",
	} {
		if got := clockAt(second, time.Hour).Sent(word); got != want {
			t.Errorf("%q is sent as %q, want %q", word, got, want)
		}
		if got := clockAt(second, time.Hour).Received(want); got != word {
			t.Errorf("%q is received as %q, want %q", want, got, word)
		}
		if got := clockAt(second, -time.Hour).Received(word); got != want {
			t.Errorf("%q is received by one that is behind as %q, want %q", word, got, want)
		}
	}

	for word, want := range map[string]string{ // the edges of what is near
		"1700172800": "1700176400", "1700172801": "1700172801",
		"1699827200": "1699830800", "1699827199": "1699827199",
	} {
		if got := clockAt(second, time.Hour).Sent(word); got != want {
			t.Errorf("%q is sent as %q, want %q", word, got, want)
		}
	}

	var none *Clock
	if got := none.Sent("1700000000"); got != "1700000000" || none.Passed() || none.Inside() != "" {
		t.Errorf("no clock sends %q", got)
	}
}

// A word of others says when it is by the client's clock.
func TestTimeOfAWord(t *testing.T) {
	c := clockAt(second, time.Hour)
	for word, want := range map[string]time.Time{
		"1700003600":              time.Unix(second, 0),
		"1700003600123":           time.Unix(second, 123e6),
		"(1700003600123456.9":     time.Unix(second, 123456e3),
		"1.70000360012345678e+18": time.Unix(second, 123456780),
	} {
		if got, is := c.Time(word); !is || !got.Equal(want) {
			t.Errorf("%q is %v, %t, want %v", word, got, is, want)
		}
	}

	if _, is := c.Time("lock"); is {
		t.Error("a name is a time")
	}
}

// A time inside a word is noted, not moved: the second one, as the first may be chance.
func TestTimesInsideWords(t *testing.T) {
	signed := base64.RawURLEncoding.EncodeToString([]byte(`{"ends": 1700000000}`))
	for word, want := range map[string]bool{
		"token:1700000000123":              true,
		`{"ends":1700000000.5}`:            true,
		"return 1700000000":                true,
		"2023-11-14T22:13:20.000Z":         true,
		"2023-10-14T22:13:20.000Z":         false,
		signed:                             true,
		"header." + signed + ".c2lnbg":     true,
		"1.70e+09":                         false,
		"lock:42":                          false,
		"token:170000000":                  false,
		"9f86d081884c7d659a2feaa0c55ad015": false,
	} {
		c := clockAt(second, time.Hour)
		c.note(word)
		if c.Inside() != "" {
			t.Errorf("%q was noted at once", word)
		}
		c.note("token:1700000001")
		if got := c.Inside() != ""; got != want || c.Passed() {
			t.Errorf("%q was noted: %t, want %t", word, got, want)
		}
	}

	c := clockAt(second, time.Hour)
	c.note("1700000000")
	c.note("1700003601")
	if !c.Passed() || c.Inside() != "" {
		t.Errorf("of two times %t, and %q", c.Passed(), c.Inside())
	}
}

// Of a command its words are moved, and of a reply all that it contains.
func TestClockOfMessages(t *testing.T) {
	const sent = "*5\r\n$3\r\nSET\r\n$4\r\nlock\r\n$1\r\n\n\r\n$4\r\nPXAT\r\n$10\r\n9999999999\r\n"
	const others = "*5\r\n$3\r\nSET\r\n$4\r\nlock\r\n$1\r\n\n\r\n$4\r\nPXAT\r\n$11\r\n10000003599\r\n"
	c := clockAt(9_999_999_999, time.Hour)
	command, err := readCommand(bufio.NewReader(strings.NewReader(sent)))
	c.moveCommand(&command)
	if err != nil || string(command.raw) != others || command.values[4] != "10000003599" {
		t.Errorf("%q is sent as %q, %v", sent, command.raw, err)
	}

	for got, want := range map[string]string{
		"+1700003600\r\n":                         "+1700000000\r\n",
		":1700003600123\r\n":                      ":1700000000123\r\n",
		",1700003600.5\r\n":                       ",1700000000.5\r\n",
		"(1700003600123456\r\n":                   "(1700000000123456\r\n",
		"=14\r\ntxt:1700003600\r\n":               "=14\r\ntxt:1700000000\r\n",
		"-ERR 1700003600\r\n":                     "-ERR 1700003600\r\n",
		"#t\r\n":                                  "#t\r\n",
		"_\r\n":                                   "_\r\n",
		"$-1\r\n":                                 "$-1\r\n",
		"*2\r\n$10\r\n1700003600\r\n*-1\r\n":      "*2\r\n$10\r\n1700000000\r\n*-1\r\n",
		"%1\r\n:1700003600\r\n~1\r\n:1\r\n":       "%1\r\n:1700000000\r\n~1\r\n:1\r\n",
		"|1\r\n+a\r\n:1700003600\r\n+b\r\n":       "|1\r\n+a\r\n:1700000000\r\n+b\r\n",
		">2\r\n+message\r\n$10\r\n1700003600\r\n": ">2\r\n+message\r\n$10\r\n1700000000\r\n",
	} {
		reply, err := readReply(bufio.NewReader(strings.NewReader(got)))
		if is := clockAt(second, time.Hour).movedReply(reply, "get"); err != nil || string(is) != want {
			t.Errorf("%q is received as %q, %v", got, is, err)
		}
	}
}

// There and back is where a message was, its shape stays, and nothing but times changes.
func FuzzClock(f *testing.F) {
	for _, seed := range []string{
		"+OK\r\n", "$13\r\n1700000000123\r\n",
		"*3\r\n:1700000000\r\n,1.7000000001e9\r\n$15\r\n1700000000000-0\r\n",
		"=14\r\ntxt:1700000000\r\n", "%1\r\n+k\r\n*1\r\n_\r\n",
		"$16\r\ntoken:1700000000\r\n", "*1\r\n$-1\r\n",
		"(17000000001234567890\r\n", "$11\r\n(1700000000\r\n", "|1\r\n+k\r\n*1\r\n:1\r\n:2\r\n",
	} {
		f.Add(seed, int16(1))
		f.Add(seed, int16(-1))
	}

	f.Fuzz(func(t *testing.T, text string, hours int16) {
		m, err := readReply(bufio.NewReader(strings.NewReader(text)))
		if err != nil {
			t.Skip("no message")
		}
		c := clockAt(second, time.Duration(hours)*time.Hour)
		there := rewritten(m.raw, c.Sent)
		moved, err := readReply(bufio.NewReader(bytes.NewReader(there)))
		if err != nil || !bytes.Equal(moved.raw, there) || len(moved.values) != len(m.values) {
			t.Fatalf("%q became %q: %v", m.raw, there, err)
		}

		for n, word := range m.values {
			_, isTime := c.parse(word, 0)
			if !isTime && moved.values[n] != word {
				t.Errorf("%q is no time, and became %q", word, moved.values[n])
			}
			// What is near only by the other clock stays there, and would be moved back.
			if _, isTheirs := c.parse(word, c.ahead); isTheirs && !isTime {
				t.Skip("at the edge of two days")
			}
		}
		back := rewritten(there, c.Received)
		if !bytes.Equal(back, m.raw) && !oddLength.Match(m.raw) {
			t.Errorf("%q became %q, and then %q", m.raw, there, back)
		}
	})
}

// oddLength matches a length that is written as no server does.
var oddLength = regexp.MustCompile(`[$=](0[0-9]|[^1-9]|[0-9]+[^0-9\r]|[0-9]+\r[^\n])|[$=][0-9]+\n`)
