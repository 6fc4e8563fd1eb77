package judge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/search"
	"github.com/marketsim/marketsim/internal/suite"
	"github.com/marketsim/marketsim/internal/wire"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// A world implements search.World, by Play (confirm.go): a server of its own, and two clients behind gates.
// The clients take one lock, the first twice and the second once, or buy in a shop. What
// stands here lasts for all schedules; each that is played is a schedule.
type world struct {
	ctx     context.Context // while it starts, that of the starts: see startWorlds
	server  *backend.Server
	clients []*client
	events  chan event // of the clients
	shop    *shop      // nil: they lock
	program string
	kinds   []explore.Fault

	wantedLease time.Duration // that the lock is to have
	lease       time.Duration // that it was seen to have
	// The least that it can be: one that polls seldom gets in late, and lease is too long.
	leastLease time.Duration
	measured   time.Duration // what lease was, in this world alone
	// How long a stopped holder was seen to keep a lock that has no lease, or one that its
	// waiters prolong; 0: it has a lease. Then lease is only a measure of time.
	keeps    time.Duration
	startsAt time.Duration // of a second, in which it measures the lease
	silence  time.Duration // how long a client may say nothing, unless other limits come first
	again    int           // how many schedules in a row it has had played again, see playAgain
	// A client has sent something else while a request was held back: it gives up soon.
	impatient bool

	faketime bool     // it has set a client's clock
	opaque   []string // words that may have a clock inside
	signed   string   // of these, one that may be a signature, or a hash; empty: none

	renewing renewing     // how the program renews its locks
	observed *observation // of the rehearsal that is under way; nil: none looks for renewals

	tested    map[string]bool // the promises that something has put to the test
	rivals    *rivalry        // with the other worlds of the program
	confirmed map[cause]bool  // what has come again when its schedule was played again
	// In how many schedules a harm was seen that did not come again.
	refuted map[verify.Harm]int
	// What was seen and not played again, because the time was over.
	unconfirmed map[cause]int
	until       time.Time // when the time of the program is over; zero: never
	// What shows that a client was kept out, by the promise that this breaks: the search
	// reports one schedule for each harm, and this one may break several promises.
	keptOut map[string]string
}

// newWorld starts the n-th server and two clients, and has them rehearse with one lease after
// the other until that succeeds. It plays no schedule before begin, which makes the maps that
// schedules write to.
func newWorld(
	ctx context.Context, o Options, guardian *program.Guardian, leases []time.Duration, n int,
) (*world, error) {
	start := o.StartServer
	if start == nil {
		start = func(ctx context.Context, l backend.Local) (*backend.Server, error) {
			return l.Start(ctx)
		}
	}
	server, err := start(ctx, o.Server)
	if err != nil {
		return nil, err
	}

	// From here on close ends the server, even if the world does not come to be.
	w := &world{
		ctx:      ctx,
		rivals:   &rivalry{},
		server:   server,
		events:   make(chan event, 1000),
		program:  o.Program,
		faketime: o.faketime,
		startsAt: time.Duration(n) * time.Second / time.Duration(o.pairs()),
		kinds:    o.Bounds.Kinds,
		silence:  cmp.Or(o.silence, o.Within, 3*program.StartLimit),
		keeps:    o.keeps,
	}

	err = w.addClients(o, guardian)
	if err == nil {
		err = w.openShop()
	}
	if err == nil {
		err = w.findLease(leases)
	}
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// begin has a world play a program: what others have shown is no part of that.
func (w *world) begin(program string) {
	w.program = program
	w.tested = map[string]bool{}
	w.confirmed = map[cause]bool{}
	w.refuted = map[verify.Harm]int{}
	w.unconfirmed = map[cause]int{}
	w.keptOut = map[string]string{}
}

// addClients opens the gates of two clients, whose programs do not run yet.
func (w *world) addClients(o Options, guardian *program.Guardian) (err error) {
	// Not with w.ctx: gates connect in goroutines of their own, as long as the world lives, and
	// startWorlds replaces the context of the start.
	connect := func() (net.Conn, error) {
		return redisconn.To(w.server.Target).Connect(context.Background())
	}
	for number, name := range []string{"Alice", "Bob"} {
		// Either faketime steps the program's own clock, or the gate moves the times it sends.
		command := o.Command
		step := o.clockStep(number)
		if step != 0 && o.faketime {
			command, err = underFaketime(command, step)
			step = 0
		}
		if err != nil {
			return err
		}

		gate, err := wire.StartGate(connect)
		if err != nil {
			return err
		}
		c := &client{number: number, gate: gate, clock: wire.NewClock(step), events: w.events}
		gate.SetClock(c.clock)
		c.Launch = program.Launch{
			Name:    name,
			Command: command,
			Server:  url.URL{Scheme: "redis", Host: gate.Addr()},
			Mark:    guardian.Mark,
			Stderr:  o.Stderr,
		}
		w.clients = append(w.clients, c)
	}
	return nil
}

// openShop connects to the market of clients that buy.
func (w *world) openShop() error {
	market, buys := suite.MarketNamed(w.program)
	if !buys {
		return nil
	}
	conn, err := w.server.Dial(w.ctx)
	if err != nil {
		return err
	}
	w.shop = &shop{Market: market, conn: conn}
	return nil
}

// playOnce plays a schedule.
func (w *world) playOnce(choose search.Chooser) (search.Played, error) {
	s, err := w.newSchedule()
	if err != nil {
		return search.Played{}, err
	}

	err = s.play(choose)
	s.finish() // in any case, or a client would stay stopped
	if err == nil {
		err = s.interrupted()
	}
	if err != nil {
		return search.Played{}, err
	}

	// After a guess w.again stays: in the next schedule playAgain guesses at once.
	if !s.guessed {
		w.again = 0
	}
	return s.played(), nil
}

// revive starts a program that does not run, and returns when it has locked or bought
// twice: it has connected, and has loaded its scripts.
func (w *world) revive(c *client) error {
	if c.process != nil {
		return nil
	}
	if err := c.start(w.wantedLease); err != nil {
		return err
	}
	c.gate.Gate(nil)
	c.gate.Record() // so that Commands, here and in explanation, are those from now on

	err := w.warmUp(c)
	if err == nil && len(c.gate.Commands()) == 0 {
		err = fmt.Errorf("%w: it has done all that it was told%s", ErrAdapter, c.explanation())
	}
	if err != nil {
		c.kill() // or a late answer would be taken for that to something else
	}
	return err
}

// close ends all.
func (w *world) close() (err error) {
	done := make(chan struct{})
	defer close(done)
	go w.dropEvents(done) // or clients would block on a full channel

	for _, c := range w.clients {
		err = errors.Join(err, c.close())
	}
	if w.shop != nil {
		err = errors.Join(err, w.shop.conn.Close())
	}
	return errors.Join(err, w.server.Close())
}

func (w *world) dropEvents(done <-chan struct{}) {
	for {
		select {
		case e := <-w.events:
			if e.held != nil {
				e.held.Drop()
			}
		case <-done:
			return
		}
	}
}
