package wire

import (
	"encoding/base64"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Clock is that of a proxy's clients, as all others see it. Others learn of it only by what
// its clients send, and its clients learn of other clocks only by what they are sent. So it is
// set without the client: each time that it sends is moved ahead, and each that it is sent,
// by whomever, is moved back by as much.
//
// A time is a whole word within two days of now: a count of seconds, or of milliseconds,
// microseconds or nanoseconds, since 1970, perhaps with a fraction, an exponent, a bracket
// before it as in ZRANGEBYSCORE, or the end of a stream's id behind it. What is shorter is
// a duration, and stays. Words are changed as text, so that no digit is lost.
//
// A time inside a longer word cannot be moved: others may have hashed the word, or signed it.
// The Clock notes such words, see Inside. Its methods are safe for concurrent use. A nil
// Clock changes and notes nothing.
type Clock struct {
	ahead time.Duration // whole seconds
	now   func() time.Time

	mu    sync.Mutex
	times sightings // words that were a time
	dated sightings // words with a time inside
}

// NewClock returns a clock that is ahead by whole seconds, or behind if they are less than
// nothing. One that is ahead by nothing only notes what passes.
func NewClock(ahead time.Duration) *Clock {
	return &Clock{ahead: ahead.Truncate(time.Second), now: time.Now}
}

// SetClock sets the clock of the clients of a proxy that reads Redis, from their next request
// on. What the gate holds, and the replies that it knows, are as the server sees them.
func (p *Proxy) SetClock(c *Clock) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clock = c
}

// clientsClock is what SetClock has set.
func (p *Proxy) clientsClock() *Clock {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clock
}

// Sent is what others see of a word that a client sends.
func (c *Clock) Sent(word string) string {
	if t, is := c.parse(word, 0); is {
		return t.moved(c.ahead)
	}
	return word
}

// Received is what a client sees of a word that others have sent.
func (c *Clock) Received(word string) string {
	if t, is := c.parse(word, c.ahead); is {
		return t.moved(-c.ahead)
	}
	return word
}

// Time is when a word that a client has sent is, by the client's own clock; the word is as
// others see it. It reports false for a word that is no time.
func (c *Clock) Time(word string) (at time.Time, is bool) {
	t, is := c.parse(word, c.ahead)
	if !is {
		return at, false
	}
	perUnit := int64(time.Second) / t.perSecond
	return time.Unix(t.whole/t.perSecond, t.whole%t.perSecond*perUnit).Add(-c.ahead), true
}

// Passed reports whether times have passed: two at least, as one may be chance.
func (c *Clock) Passed() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.times.second != ""
}

// Inside is a word with a time inside, which was not moved. It is empty until a second one has
// passed: random digits may look like one by chance.
func (c *Clock) Inside() string {
	if c == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dated.second
}

// sightings are the first two words of a kind.
type sightings struct{ first, second string }

func (s *sightings) note(word string) {
	switch {
	case s.first == "":
		s.first = word
	case s.second == "" && word != s.first:
		s.second = word
	}
}

// note notes a word that passes, in either direction. c is not nil.
func (c *Clock) note(word string) {
	_, asSent := c.parse(word, 0)
	_, asReceived := c.parse(word, c.ahead)
	isTime := asSent || asReceived
	if !isTime && !c.isInside(word) {
		return
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if isTime {
		c.times.note(word)
	} else {
		c.dated.note(word)
	}
}

// moveCommand moves the times of a command ahead, in its values and in what is sent of it. A
// command is strings alone, see readCommand, so that the n-th that rewritten comes to is the
// n-th of the values. Its name stays as it was sent: in the values it is in lower case.
func (c *Clock) moveCommand(command *message) {
	if c == nil {
		return
	}
	c.moveWords(command.values)

	n := 0
	command.raw = rewritten(command.raw, func(was string) string {
		is := command.values[n]
		if n == 0 {
			is = was
		}
		n++
		return is
	})
}

// moveWords moves the times in the words of a command ahead.
func (c *Clock) moveWords(command []string) {
	if c == nil {
		return
	}
	for i, word := range command[1:] {
		if !tellsOfConnection(command[0]) {
			c.note(word)
		}
		command[i+1] = c.Sent(word)
	}
}

// movedReply is what a client gets of a reply to one of its commands, or of a push.
func (c *Clock) movedReply(m message, command string) []byte {
	if c == nil {
		return m.raw
	}
	return rewritten(m.raw, func(word string) string {
		if !tellsOfConnection(command) {
			c.note(word)
		}
		return c.Received(word)
	})
}

// tellsOfConnection reports whether a command and its reply are about the connection and the
// server, such as INFO with the time at which that has saved: no clock of a client is inside.
func tellsOfConnection(command string) bool {
	switch command {
	case "hello", "client", "auth", "info", "command", "config":
		return true
	}
	return false
}

// rewritten is a message with its texts and numbers changed, but for errors. All else stays:
// what says how long a text is says so of the new one. The message is whole and valid, as
// readValue returns it, so that what a header announces is there. It calls change once for each
// text or number, in their order, for an empty text, too: moveCommand counts the calls.
func rewritten(raw []byte, change func(word string) string) (all []byte) {
	for rest := string(raw); rest != ""; {
		end := strings.IndexByte(rest, '\n') + 1
		line := rest[:end]
		rest = rest[end:]

		kind, length, err := header(line)
		if err != nil { // it cannot be: readValue has read this line
			return raw
		}
		switch kind {
		case '+', ':', ',', '(':
			word := strings.TrimSuffix(line[1:], "\r\n")
			all = append(all, kind)
			all = append(all, change(word)...)
			all = append(all, line[1+len(word):]...)
		case '$', '=', '!':
			all = appendString(all, line, rest[:length], change)
			all = append(all, rest[length:length+len("\r\n")]...)
			rest = rest[length+len("\r\n"):]
		default:
			all = append(all, line...)
		}
	}
	return all
}

// appendString appends a string, changed, with its header and without the end of its line.
func appendString(all []byte, header, text string, change func(word string) string) []byte {
	is := text

	switch header[0] {
	case '$':
		is = change(text)
	case '=': // the kind of text comes first: "txt:"
		if format, word, found := strings.Cut(text, ":"); found {
			is = format + ":" + change(word)
		}
	}

	// A text that stays keeps its header, so that such a message passes byte for byte.
	if is != text {
		header = header[:1] + strconv.Itoa(len(is)) + "\r\n"
	}
	all = append(all, header...)
	return append(all, is...)
}

// A moment is a word that is a time: the text around a whole number of units.
type moment struct {
	before    string // a bracket
	whole     int64  // units since 1970
	perSecond int64  // units in a second
	after     string // the fraction of a unit, or the end of a stream's id
	exponent  string // such as e+18, with the letter; empty: it has none
}

const (
	nearBy    = 48 * time.Hour
	shortest  = len("1700000000")
	longest   = len("(1700000000000000000-18446744073709551615")
	streaming = 1000 // a stream's ids are in milliseconds
)

var (
	plain      = regexp.MustCompile(`^([(\[]?)([1-9][0-9]{9,18})(\.[0-9]+|-[0-9]+|-\*)?$`)
	scientific = regexp.MustCompile(`^([(\[]?)([1-9])(?:\.([0-9]+))?([eE]\+?([0-9]{1,2}))$`)
)

// parse reads a word that is a time within two days of what a clock says that is ahead by this
// much: by nothing for a word that a client sends, by c.ahead for one that others have sent.
func (c *Clock) parse(word string, ahead time.Duration) (t moment, is bool) {
	// Most words are no times: their length or last letter tells, and spares the expressions.
	if c == nil || len(word) < len("2e9") || len(word) > longest || word[len(word)-1] > '9' {
		return t, false
	}

	// A time that is written with an exponent is split where its whole part ends: only that is
	// compared with the clock, and moved. One with a 0 at the end of its fraction is none: moved
	// would write it without.
	digits := ""
	if m := plain.FindStringSubmatch(word); m != nil {
		t = moment{before: m[1], after: m[3]}
		digits = m[2]
	} else if m := scientific.FindStringSubmatch(word); m != nil && !strings.HasSuffix(m[3], "0") {
		places, _ := strconv.Atoi(m[5])
		mantissa := m[2] + m[3]
		mantissa += strings.Repeat("0", max(0, places+1-len(mantissa)))
		digits = mantissa[:places+1]
		t = moment{before: m[1], after: mantissa[places+1:], exponent: m[4]}
	}

	whole, err := strconv.ParseInt(digits, 10, 64)
	if err != nil { // the word has neither form, or too many digits
		return t, false
	}

	t.whole = whole
	t.perSecond, is = c.unit(whole, ahead)
	if strings.HasPrefix(t.after, "-") && t.perSecond != streaming {
		return t, false
	}
	return t, is
}

// unit is how many units are in a second, if a number of them since 1970 is a time.
func (c *Clock) unit(number int64, ahead time.Duration) (perSecond int64, is bool) {
	now := c.now().Add(ahead).Unix()
	for _, perSecond := range []int64{1, 1e3, 1e6, 1e9} {
		if away := number/perSecond - now; max(away, -away) <= int64(nearBy/time.Second) {
			return perSecond, true
		}
	}
	return 0, false
}

// moved is the word for a time that is later.
func (t moment) moved(by time.Duration) string {
	digits := strconv.FormatInt(t.whole+int64(by/time.Second)*t.perSecond, 10)
	if t.exponent == "" {
		return t.before + digits + t.after
	}

	mantissa := digits[:1]
	if fraction := strings.TrimRight(digits[1:]+t.after, "0"); fraction != "" {
		mantissa += "." + fraction
	}
	return t.before + mantissa + t.exponent
}

// isInside reports whether a time stands inside a word: its digits, or a date near, also if
// the word is base64, as in a token that is signed.
func (c *Clock) isInside(word string) bool {
	if len(word) < shortest {
		return false
	}
	if c.isWritten(word) {
		return true
	}
	for part := range strings.SplitSeq(word, ".") {
		if decoded, err := decodeBase64(part); err == nil && c.isWritten(string(decoded)) {
			return true
		}
	}
	return false
}

// decodeBase64 decodes a word in either alphabet, with or without padding.
func decodeBase64(word string) ([]byte, error) {
	word = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(word, "="))
	return base64.RawStdEncoding.DecodeString(word)
}

var (
	numbers = regexp.MustCompile(`[0-9]+`)
	dates   = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}`)
)

// isWritten reports whether a text, sent in either direction, has the digits of a time in it, or
// a date that is near.
func (c *Clock) isWritten(text string) bool {
	for _, digits := range numbers.FindAllString(text, -1) {
		number, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			continue
		}
		if _, is := c.unit(number, 0); is {
			return true
		}
		if _, is := c.unit(number, c.ahead); is {
			return true
		}
	}

	for _, date := range dates.FindAllString(text, -1) {
		day, err := time.Parse(time.DateOnly, date)
		if away := day.Sub(c.now()); err == nil && away.Abs() <= nearBy+c.ahead.Abs() {
			return true
		}
	}
	return false
}
