package join

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

const (
	// Most is how many members a run has at most.
	Most = 100
	// DefaultSilence is after how long without a sign of life a member is lost.
	DefaultSilence = 5 * time.Second

	signs = 5                      // of life, in that time
	lead  = 250 * time.Millisecond // from when the last has come until all begin
	poll  = 10 * time.Millisecond  // between two looks of a member that waits for others
)

var validID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// ValidID reports whether a run may have that name.
func ValidID(id string) bool { return validID.MatchString(id) }

// Config says what a process joins.
type Config struct {
	ID       string            // names the run
	Of       int               // how many members it is to have
	Settings map[string]string // what has to be the same for all, by the names that a user knows
	Keys     market.Keys
	Dial     func(context.Context) (*backend.Conn, error) // connects to the server of these keys
	Silence  time.Duration                                // after how long a member is lost; 0: DefaultSilence
	Now      func() time.Time                             // this machine's clock; nil: time.Now
}

func (c Config) keys() []string { return Keys(c.Keys, c.Of) }

// Member is one process of a run that several make. Its methods may be called by several goroutines.
type Member struct {
	config Config
	index  int
	token  string
	conn   *backend.Conn // for all but signs of life
	beats  *backend.Conn
	done   chan struct{} // closed by Leave
	beat   sync.WaitGroup

	made    time.Time
	trusted atomic.Int64 // until when Guard lets commands pass, in ns since the member was made

	mu        sync.Mutex
	confirmed time.Time     // when the last sign of life that was answered was sent
	answered  chan struct{} // closed at the next answer
	over      *Over
	isOver    chan struct{}
	seen      []sighting // by member
}

// sighting is what a member noticed of another's signs of life.
type sighting struct {
	beat  string
	since time.Time // by the server's clock: when it was first seen
	looks int       // answers to own signs of life since then
}

// Join registers this process. It returns ErrDiffers, ErrFull, ErrBegun or ErrAbandoned, wrapped, when it cannot take part.
// The caller calls Leave at the end.
func Join(ctx context.Context, c Config) (*Member, error) {
	if c.Silence == 0 {
		c.Silence = DefaultSilence
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	m := &Member{
		config: c, token: rand.Text(), done: make(chan struct{}), isOver: make(chan struct{}), answered: make(chan struct{}),
		seen: make([]sighting, c.Of), made: c.Now(),
	}
	m.confirmed = m.made
	var err error
	if m.conn, err = c.Dial(ctx); err != nil {
		return nil, err
	}
	if m.beats, err = c.Dial(ctx); err != nil {
		return nil, errors.Join(err, m.conn.Close())
	}
	if m.index, err = register(ctx, m.conn, c, m.token); err != nil {
		return nil, errors.Join(err, m.beats.Close(), m.conn.Close())
	}
	m.beat.Go(m.keepAlive)
	return m, nil
}

// Index is the member's number, from 0.
func (m *Member) Index() int { return m.index }

// Of is how many members the run has.
func (m *Member) Of() int { return m.config.Of }

// Gather waits until all members have joined. Where they do not in time, its error says what to do.
func (m *Member) Gather(ctx context.Context, timeout time.Duration) error {
	timedOut := time.After(timeout)
	for {
		v, err := m.tell(ctx, m.conn, "", "")
		if err != nil {
			return err
		}
		if v.state != "gathering" {
			return nil
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return ctx.Err()
		case <-timedOut:
			return fmt.Errorf("%d of %s joined %s within %s: start the others with the same --join %s --of %d, against the same "+
				"server", v.joined(), english.Plural(m.config.Of, "load machine", ""), m.config.ID, timeout, m.config.ID, m.config.Of)
		}
	}
}

// Together waits until every member has come to a step, of which the first is 1. It returns an *Over where that will never
// be.
func (m *Member) Together(ctx context.Context, step int) error {
	_, err := m.arrive(ctx, step, func(*Over) bool { return true })
	return err
}

// A Start is when all members begin.
type Start struct {
	At     time.Time     // by the clock of this machine, a moment ahead
	Within time.Duration // how far it can be from the time at which the others begin by their clocks, less what theirs can be
}

// Start is Together, and a time at which all begin.
func (m *Member) Start(ctx context.Context, step int) (Start, error) {
	c, err := readClock(ctx, m.conn, m.config.Now)
	if err != nil {
		return Start{}, err
	}
	v, err := m.arrive(ctx, step, func(*Over) bool { return true })
	if err != nil {
		return Start{}, err
	}
	return Start{At: c.local(v.at[strconv.Itoa(step)]), Within: c.within}, nil
}

// Rest waits until every member has come to a step that is not gone, and says who did come. It returns an *Over only where
// this member itself is cut off from the others.
func (m *Member) Rest(ctx context.Context, step int) (came []bool, err error) {
	v, err := m.arrive(ctx, step, func(why *Over) bool { return why.Cause == Cut })
	if err != nil {
		return nil, err
	}
	for _, other := range v.members {
		came = append(came, other.step >= step)
	}
	return came, nil
}

// Come comes to a step without waiting for anybody.
func (m *Member) Come(ctx context.Context, step int) error {
	_, err := m.tell(ctx, m.conn, "step", strconv.Itoa(step))
	return err
}

// Came reports whether a member has come to a step, whatever became of it.
func (m *Member) Came(ctx context.Context, i, step int) (bool, error) {
	v, err := m.tell(ctx, m.conn, "", "")
	return err == nil && v.members[i].step >= step, err
}

// Reports waits until somebody has published what all came to at a step, and reports whether this member has to do so: it
// has the lowest number of those that are not gone.
func (m *Member) Reports(ctx context.Context, step int) (bool, error) {
	for {
		v, err := m.tell(ctx, m.conn, "", "")
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(v.members, func(other memberView) bool { return other.step >= step }) {
			return false, nil
		}
		if slices.IndexFunc(v.members, func(other memberView) bool { return other.gone == "" }) == m.index {
			return true, nil
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// arrive comes to a step and waits for the others. It returns why the run is to end before its time where that ends the
// waiting.
func (m *Member) arrive(ctx context.Context, step int, ends func(*Over) bool) (view, error) {
	for {
		v, err := m.tell(ctx, m.conn, "step", strconv.Itoa(step))
		if why := m.Why(); why != nil && ends(why) {
			return v, why
		}
		if err != nil {
			return v, err
		}
		if _, known := v.at[strconv.Itoa(step)]; known && v.came(step) {
			return v, nil
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return v, ctx.Err()
		}
	}
}

// Stop ends the run for all members, if nothing has ended it before. Before all have joined it does nothing: others may take
// this member's place.
func (m *Member) Stop(ctx context.Context, cause Cause, what string) error {
	text, err := json.Marshal(Over{Cause: cause, Member: m.index, What: what})
	if err == nil {
		_, err = m.tell(ctx, m.conn, "stop", string(text))
	}
	return err
}

// Leave ends this member's part. It returns when every other member has left, too, or is lost, or ctx has ended: the last
// removes the keys. Before all have joined it does not wait for them.
func (m *Member) Leave(ctx context.Context) error {
	defer func() {
		close(m.done)
		m.beat.Wait()
		m.beats.Close()
		m.conn.Close()
	}()
	for {
		_, err := m.tell(ctx, m.conn, "left", "")
		if over := (*Over)(nil); errors.As(err, &over) {
			return nil // the keys are gone, or the others remove them
		}
		if err != nil {
			return fmt.Errorf("leave %s: %w; if its keys stay, remove them with 'marketsim clean --prefix %s'", m.config.ID, err,
				m.config.Keys.Prefix())
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return nil
		}
	}
}

// tell gives a sign of life, with news if there are any, and returns what the meeting holds.
func (m *Member) tell(ctx context.Context, conn *backend.Conn, what, value string) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, m.config.Silence)
	defer cancel()
	sent := m.config.Now()
	reply, err := tellScript.Run(ctx, conn, m.config.keys(), m.index, m.token, what, value, lead.Microseconds(),
		m.config.Silence.Microseconds()).Slice()
	if err != nil {
		return view{}, fmt.Errorf("meet the other load machines of %s: %w", m.config.ID, err)
	}
	switch reply[0] {
	case "gone":
		return view{}, m.cut("the keys of the meeting are gone: this load machine left it, or somebody removed them")
	case "lost":
		return view{}, m.cut(fmt.Sprintf("it was silent for %s, and the others settled what it had under way", m.config.Silence))
	}
	fields, _ := reply[2].([]any)
	v, err := readView(fmt.Sprint(reply[1]), fields)
	if err != nil {
		return view{}, fmt.Errorf("read %s: %w", m.config.Keys.Meeting(), err)
	}
	m.confirm(sent)
	m.learn(v)
	return v, nil
}

// keepAlive gives signs of life until the member leaves, and notices whose signs of life are missing.
func (m *Member) keepAlive() {
	tick := time.NewTicker(m.config.Silence / signs)
	defer tick.Stop()
	for {
		v, err := m.tell(context.Background(), m.beats, "", "")
		if err == nil {
			for _, i := range m.silent(v) {
				_, _ = m.tell(context.Background(), m.beats, "lost", strconv.Itoa(i)) // or the next sign of life tells it
			}
		} else if m.stale(m.config.Silence) {
			m.cut(fmt.Sprintf("it could not reach the server for %s: %v", m.config.Silence, err))
		}
		select {
		case <-tick.C:
		case <-m.done:
			return
		}
	}
}

// silent are the members whose signs of life are missing. It is called with each answer to one of this member's: so a
// server that stood still makes nobody lost.
func (m *Member) silent(v view) (missing []int) {
	if v.state == "gathering" {
		return nil
	}
	for i, other := range v.members {
		s := &m.seen[i]
		if s.beat != other.beat {
			*s = sighting{beat: other.beat, since: v.now}
			continue
		}
		s.looks++
		if i != m.index && other.gone == "" && s.looks >= signs && v.now.Sub(s.since) >= m.config.Silence {
			missing = append(missing, i)
		}
	}
	return missing
}
