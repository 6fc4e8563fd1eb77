package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/marketsim/marketsim/bench/join"
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// Joined measures rows that several processes make together, in lock-step: each calls Run with the same configurations in
// the same order. A row's Mix, Wallets and Browsers are those of one process; its market has the accounts of all.
//
// The first process seeds the market. All begin at one time, with a warm-up of fixed length, and hand over what they have
// measured. One of them merges that, audits the market, removes it, and publishes the row.
type Joined struct {
	member   *join.Member
	rows     int
	reporter int
}

// NewJoined returns what runs the rows of a member.
func NewJoined(member *join.Member) *Joined { return &Joined{member: member} }

// Reporter is the process that put the last row together, from 0; -1 where this one is cut off from the others.
func (j *Joined) Reporter() int { return j.reporter }

// Share is the configuration of a row as this process has it, whose Name is that of the whole row.
func (j *Joined) Share(c Config) Config {
	c.party = party{index: j.member.Index(), of: j.member.Of()}
	return c
}

// The steps at which the processes wait for each other in a row.
const (
	seeding  = 1 + iota // the first process begins to seed the market
	seeded              // the market is open
	begun               // all workers are connected
	handed              // every process has handed over its part
	reported            // the row is published, and its market removed
	steps    = iota
)

// Run measures one row, as the function Run does. All processes return the same row, and an error where it is incomplete,
// but for one that the others have lost.
func (j *Joined) Run(ctx context.Context, c Config) (result.Row, error) {
	c = j.Share(c)
	if err := errors.Join(c.validate(), c.checkJoined()); err != nil {
		return result.Row{}, err
	}
	dial := c.DialWorker
	if dial == nil {
		dial = c.Dial
	}
	c.DialWorker = j.member.Guard(dial)
	j.rows++
	workers := newWorkers(c)
	row := &joinedRow{Joined: j, rowMarket: workers.markets[0], workers: workers, before: (j.rows - 1) * steps}
	return row.run(ctx)
}

// checkJoined returns ErrConfig, wrapped, for what several processes cannot measure together.
func (c Config) checkJoined() error {
	switch {
	case c.Hot > 0 || c.Stock > 0 || c.Accounts > 0:
		return fmt.Errorf("%w: load machines together have no market of hot items, of a stock or of more accounts", ErrConfig)
	case len(c.Sites) > 1:
		return fmt.Errorf("%w: load machines together have one market, and not %d", ErrConfig, len(c.Sites))
	case c.Rate > 0 || c.Purchases > 0:
		return fmt.Errorf("%w: load machines together have a closed loop that ends after a time", ErrConfig)
	case c.History != "" || c.Pool > 0 || c.Keep:
		return fmt.Errorf("%w: load machines together record no history, have no pool of accounts and keep no market", ErrConfig)
	case c.LongestWarmup() != c.Warmup:
		return fmt.Errorf("%w: load machines together need a warm-up of fixed length", ErrConfig)
	}
	return nil
}

// joinedRow is a row while several processes measure it.
type joinedRow struct {
	*Joined
	*rowMarket
	workers *Workers // of this process
	before  int      // steps of the rows before it
}

func (r *joinedRow) step(s int) int { return r.before + s }

// outcome is what is published.
type outcome struct {
	Row      result.Row
	Reporter int    // who put it together
	Failure  string // why it is incomplete; empty: it is not
}

// run measures the row. However it ends here, the part is handed over: who is silent is taken for lost.
func (r *joinedRow) run(ctx context.Context) (result.Row, error) {
	afterwards := context.WithoutCancel(ctx)
	defer context.AfterFunc(ctx, func() { _ = r.member.Stop(afterwards, join.Interrupted, "") })()
	p := r.measure(ctx)
	if p.Failure != "" && r.member.Why() == nil {
		_ = r.member.Stop(afterwards, join.Failed, p.Failure) // or the others find out that it is lost
	}
	o, err := r.conclude(afterwards, p)
	if err != nil {
		o = outcome{Row: p.Row, Reporter: -1}
		o.Row.Status = result.Incomplete
	} else if o.Failure != "" {
		err = errors.New(o.Failure)
	}
	r.reporter = o.Reporter
	if err != nil {
		err = fmt.Errorf("row %s: %w", r.Name(), err)
	}
	return o.Row, err
}

// measure is the part of this process.
func (r *joinedRow) measure(ctx context.Context) *part {
	ours, err := r.open(ctx)
	var p *part
	if err == nil {
		p, err = r.load(ctx)
	}
	if p == nil { // nothing was measured
		p = &part{Row: r.workers.Row(result.Incomplete, 0)}
		empty := newHistogram()
		p.Tries = encode(empty)
		for w := range p.Took {
			p.Took[w] = encode(empty)
		}
	}
	if p.Ours = ours; err == nil {
		return p
	}
	p.Row.Status = result.Incomplete
	if why := r.member.Why(); ctx.Err() != nil || why != nil && why.Cause == join.Interrupted {
		p.Row.Status = result.Interrupted
	} else if why == nil { // else somebody has said it
		p.Failure = err.Error()
	}
	return p
}

// open seeds the market, or waits until that is done.
func (r *joinedRow) open(ctx context.Context) (ours bool, err error) {
	if r.member.Index() == 0 {
		if err = r.member.Come(ctx, r.step(seeding)); err == nil {
			ours, err = r.seed(ctx)
		}
	} else {
		err = r.readKept(ctx)
	}
	if err != nil {
		return ours, err
	}
	return ours, r.member.Together(ctx, r.step(seeded))
}

// readKept is seed of a market that another process seeds.
func (r *joinedRow) readKept(ctx context.Context) error {
	conn, err := r.Dial(ctx)
	if err != nil {
		return err
	}
	r.found(ctx, conn)
	return conn.Close()
}

// load connects the workers and lets them trade, from the time at which all begin, until the row is over or somebody ends
// it.
func (r *joinedRow) load(ctx context.Context) (*part, error) {
	workers := r.workers
	if err := workers.connect(ctx); err != nil {
		return nil, err
	}
	start, err := r.member.Start(ctx, r.step(begun))
	if err != nil {
		return nil, errors.Join(err, workers.Close())
	}
	defer workers.collector.run()()
	m := newMeasurement(workers)
	m.begins = start.At
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		r.listen(ctx, m.stop)
	}()
	m.work(ctx)
	<-listening
	closing := workers.Close()
	p := m.part()
	p.Within = start.Within
	switch over := (*join.Over)(nil); {
	case errors.As(m.stop.cause, &over):
		p.Failure = "" // it is another's
	case p.Failure == "" && closing != nil:
		p.Failure, p.Row.Status = closing.Error(), result.Incomplete
	}
	return p, nil
}

// listen stops the row here when another process ends it, and the others when it fails here.
func (r *joinedRow) listen(ctx context.Context, stop *stop) {
	select {
	case <-r.member.Over():
		if why := r.member.Why(); why.Cause == join.Interrupted {
			stop.set(result.Interrupted, nil)
		} else {
			stop.set(result.Incomplete, why)
		}
	case <-stop.done:
		if stop.status == result.Incomplete && stop.cause != nil {
			_ = r.member.Stop(context.WithoutCancel(ctx), join.Failed, stop.cause.Error())
		}
	}
}

// conclude hands the part over, and returns what all came to. If this process has the lowest number of those that are left,
// it puts that together.
func (r *joinedRow) conclude(ctx context.Context, own *part) (outcome, error) {
	form, err := own.marshal()
	if err == nil {
		err = r.member.Hand(ctx, form)
	}
	if err != nil {
		return outcome{}, err
	}
	came, err := r.member.Rest(ctx, r.step(handed))
	if err != nil {
		return outcome{}, err
	}
	mine, err := r.member.Reports(ctx, r.step(reported))
	if err != nil {
		return outcome{}, err
	}
	if mine {
		o := r.report(ctx, came)
		text, err := json.Marshal(o)
		if err == nil {
			err = r.member.Publish(ctx, r.step(reported), text)
		}
		if err != nil { // the others will not know, and this process does
			o.Row.Warnings = append(o.Row.Warnings, fmt.Sprintf("the other load machines could not be told: %v", err))
		}
		return o, nil
	}
	var o outcome
	text, err := r.member.Published(ctx)
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	return o, err
}

// report merges what was handed over, audits the market with all ledgers, and removes it.
func (r *joinedRow) report(ctx context.Context, came []bool) outcome {
	var failures []error
	parts := make([]*part, len(came))
	ours, err := r.member.Came(ctx, 0, r.step(seeding))
	failures = append(failures, err)
	for i := range came {
		if came[i] {
			form, err := r.member.Part(ctx, i)
			if err == nil {
				parts[i], err = readPart(form)
			}
			failures = append(failures, err)
		}
		if parts[i] == nil {
			r.party.lost = append(r.party.lost, i)
		}
	}
	if parts[0] != nil {
		ours = parts[0].Ours
	}
	if why := r.member.Why(); why != nil && why.Cause != join.Interrupted {
		failures = append(failures, why)
	}
	row, err := merge(r.Config, parts)
	failures = append(failures, err)
	for i, p := range parts {
		if why := r.member.Why(); p != nil && p.Failure != "" && (why == nil || why.Member != i) {
			failures = append(failures, fmt.Errorf("load machine %d: %s", i+1, p.Failure))
		}
	}
	if ours { // or the keys under the prefix are somebody else's
		var ledgers []*market.Ledger
		for _, p := range parts {
			if p != nil {
				ledgers = append(ledgers, p.ledgers...)
			}
		}
		row.Audit, err = r.auditAll(ctx, ledgers)
		row.Warnings = append(row.Warnings, r.warns...)
		failures = append(failures, err, r.remove(ctx, max(r.party.minted, lastMinted(ledgers))))
	}
	o := outcome{Row: row, Reporter: r.member.Index()}
	if err := errors.Join(failures...); err != nil {
		o.Failure, o.Row.Status = err.Error(), result.Incomplete
	} else {
		warnOfNothing(&o.Row)
	}
	return o
}

// auditAll is audit, with the accounts and items of those who are lost.
func (r *joinedRow) auditAll(ctx context.Context, ledgers []*market.Ledger) (result.Audit, error) {
	if len(r.party.lost) > 0 {
		err := r.whole(ctx, func(conn *backend.Conn) error {
			made, err := market.ReadMade(ctx, conn.Client, r.Keys)
			r.party.minted = made.Items
			return err
		})
		if err != nil {
			return noAudit(), fmt.Errorf("the market could not be audited: %w", err)
		}
	}
	return r.audit(ctx, ledgers)
}
