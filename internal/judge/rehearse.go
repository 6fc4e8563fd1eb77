package judge

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/marketsim/marketsim/internal/program"
	"github.com/marketsim/marketsim/verify/explore"
)

// longestLease is how long a client waits at least for the lease of another to end.
const longestLease = 5 * time.Second

// findLease has clients rehearse with one lease after the other until that succeeds. One
// that says nothing with the first may have half of the time for that, so that some is left
// for the others. If it never says anything, the error is the first, of the longest wait.
func (w *world) findLease(leases []time.Duration) (err error) {
	end := time.Now().Add(w.silence)
	var first error
	for n, lease := range leases {
		w.wantedLease = lease
		left := time.Until(end)
		if left <= 0 && errors.Is(err, program.ErrSilent) {
			break
		}

		// The last lease may have all that is left. What is set last stays: in the search, too, a
		// program that is started again may be silent no longer, see limit.
		w.silence = max(left, time.Second/10)
		if n < len(leases)-1 {
			w.silence = max(left/2, time.Second/10)
		}

		err = w.rehearse()
		if err == nil || errors.Is(err, errClock) {
			return err
		}
		first = cmp.Or(first, err)
	}

	// With the last lease a stopped holder kept the lock: it is judged without one. As keeps is
	// set, rehearse measures none.
	var kept *noLease
	if errors.As(err, &kept) {
		w.keeps = kept.waited
		w.wantedLease = leases[0]
		return w.rehearse()
	}
	if errors.Is(first, program.ErrSilent) && errors.Is(err, program.ErrSilent) {
		return first
	}
	return err
}

// interview finds out once for all worlds how a program renews its locks, and returns the
// faults that can happen to it.
func (w *world) interview(o Options) (kinds []explore.Fault, err error) {
	if w.shop == nil {
		err = w.observeRenewals()
	}
	if err != nil || !o.cancels() {
		return o.Bounds.Kinds, err
	}
	return w.heardKinds()
}

// limit is how long a client may say nothing where it should answer before a limit.
func (w *world) limit(answer time.Duration) time.Duration { return min(answer, w.silence) }

// rehearse has each client do its work without interference. Then it measures the lease
// of a lock.
func (w *world) rehearse() error {
	// Programs learn wantedLease when they start.
	for _, c := range w.clients {
		c.kill()
		if err := w.revive(c); err != nil {
			return err
		}
	}

	w.lease = w.wantedLease
	switch {
	case w.faketime:
		return w.checkClock()
	case setsClock(w.program): // a lease that ends too soon by a clock is for the search to find
		return nil
	case w.shop != nil, w.keeps > 0:
		return nil
	}
	return w.measureLease()
}

// warmUp has a client lock or buy twice.
func (w *world) warmUp(c *client) (err error) {
	for n := 0; err == nil && n < 2; n++ {
		if w.shop != nil {
			err = w.buyOnce(c)
			continue
		}
		err = w.lockOnce(c)
	}
	return err
}

// mostTries is how often a client is asked to lock while nobody interferes.
const mostTries = 5

// lockOnce has a client take a lock of its own and release it. One that fails, or has lost its
// lock meanwhile, is asked again: the machine may have stood still for a lease, or for the
// time-out of a connection.
func (w *world) lockOnce(c *client) error {
	for n := 1; ; n++ {
		request, failed, err := w.tryToLock(c)
		if err != nil || failed == nil {
			return err
		}
		if n == mostTries {
			return c.wrong(request, failed)
		}
	}
}

// tryToLock is lockOnce without another try. It returns which request has failed, and how; an
// error is for good. By a clock that is wrong the lease may end at once, which is for the
// search to find.
func (w *world) tryToLock(c *client) (request string, failed, err error) {
	request = program.Acquire("rehearsal" + rand.Text())
	answer, err := w.ask(c, w.limit(program.StartLimit), request)
	if err == nil {
		failed, err = c.judgeAnswer(request, program.Acquired, answer)
	}
	if err != nil || failed != nil {
		return request, failed, err
	}

	request = program.Release
	answer, err = w.ask(c, w.limit(program.AnswerLimit), request)
	switch {
	case err != nil:
		return request, nil, err
	case answer.Word() == program.Lost && setsClock(w.program):
		return request, nil, nil
	case answer.Word() == program.Lost:
		return request, &lostInRehearsal{lease: w.wantedLease}, nil
	}
	failed, err = c.judgeAnswer(request, releasesOwn, answer)
	return request, failed, err
}

// judgeAnswer returns how a client has failed that answers "error", and an error for any other
// answer than the words.
func (c *client) judgeAnswer(request, words string, answer program.Output) (failed, err error) {
	wrong := answer.Expect(words)
	switch {
	case wrong == nil:
		return nil, nil
	case !answer.Ended && answer.Word() == "error":
		return wrong, nil
	}
	return nil, c.wrong(request, wrong)
}

// A lostInRehearsal is the error of a client that loses its lock again and again though nobody
// takes it.
type lostInRehearsal struct{ lease time.Duration }

// Error names the machine, which may be the cause.
func (e *lostInRehearsal) Error() string {
	text := fmt.Sprintf("said %q %d times, though nobody else takes that lock: "+
		"its lease, of LOCK_TTL_MS = %d, has run out, or its release is wrong",
		program.Lost, mostTries, e.lease.Milliseconds())
	if l := machineLoad(); l != nil {
		text += fmt.Sprintf("; on this machine on average %.0f processes want to run on %d cores",
			l.Average, l.Cores)
	}
	return text
}

// releasesOwn are the answers to the release of a lock that was not lost.
const releasesOwn = "released done"

func (w *world) buyOnce(c *client) error {
	if err := w.shop.open(w.ctx); err != nil {
		return err
	}
	order := program.Buy(w.shop.order(c.number))
	return w.expect(c, w.limit(program.StartLimit), program.Bought, order)
}

// mostMeasured is how often a lease is measured while the machine stands still.
const mostMeasured = 4

// measureLease stops the holder of a lock, and waits until the other client gets in: again
// while the machine has stood still so long that nothing was measured. Each world begins at
// another phase of a second: a lock that counts whole seconds has leases of different lengths.
func (w *world) measureLease() error {
	now := time.Now()
	w.observe((w.startsAt - time.Duration(now.Nanosecond()) + time.Second) % time.Second)

	for range mostMeasured {
		uncertain, err := w.measureLeaseOnce()
		if err != nil || uncertain < w.wantedLease/8 {
			return err
		}
	}
	return nil // the lease is taken to be the shortest that it can have been
}

// measureLeaseOnce stops the holder of a lock, and sets w.lease and w.measured to how long the
// other client then needs to get in. It also returns by how much the lease may have been longer.
func (w *world) measureLeaseOnce() (uncertain time.Duration, err error) {
	holder, other := w.clients[0], w.clients[1]
	acquire := program.Acquire("lease-" + rand.Text())
	asked := time.Now()
	err = w.expect(holder, w.limit(program.AnswerLimit), program.Acquired, acquire)
	if err != nil {
		return 0, err
	}

	stopped := holder.process // which may have ended when the other gets in
	stopped.Pause()
	began := time.Now()
	err = w.acquireWithin(other, max(longestLease, 3*w.wantedLease), acquire)
	w.lease = time.Since(began)
	stopped.Resume()
	switch {
	// It waits on, or gave up: the lock keeps it out.
	case err != nil && !errors.Is(err, program.ErrEnded) && w.ctx.Err() == nil:
		return 0, &noLease{waited: w.lease, cause: err}
	case err != nil:
		return 0, fmt.Errorf("a holder was stopped, and in %s the other did not get in: "+
			"has the lock a lease, of LOCK_TTL_MS = %d milliseconds? %w",
			w.lease.Round(time.Millisecond), w.wantedLease.Milliseconds(), err)
	}
	w.measured = w.lease

	// Before it said that it had the lock it may have had it for as long as it was asked.
	uncertain = began.Sub(asked)
	if w.lease+uncertain < w.wantedLease/4 {
		return 0, fmt.Errorf("%w: two clients were inside at once, and nothing had happened: "+
			"is its lock one in the server at REDIS_HOST and REDIS_PORT?", ErrAdapter)
	}

	// The first has lost the lock, and may release that of the other.
	return uncertain, errors.Join(
		w.expect(holder, w.limit(program.AnswerLimit), program.ReleaseAnswers, program.Release),
		w.expect(other, w.limit(program.AnswerLimit), program.ReleaseAnswers, program.Release),
	)
}

// A noLease is the error of a lock that its stopped holder keeps: another lease may be one that
// it can have. If none is, the lock is judged without one.
type noLease struct {
	waited time.Duration
	cause  error
}

// Error says what was seen.
func (e *noLease) Error() string {
	return fmt.Sprintf("a holder was stopped, and in %s the other did not get in: %v",
		e.waited.Round(100*time.Millisecond), e.cause)
}

// Unwrap has the program that waits silent.
func (e *noLease) Unwrap() error { return e.cause }

// acquireWithin has a client acquire a lock, and again after an error, which may be that it
// gives up sooner than a lease ends.
func (w *world) acquireWithin(c *client, limit time.Duration, acquire string) error {
	for end := time.Now().Add(limit); ; {
		err := w.expect(c, time.Until(end), program.Acquired, acquire)
		isOver := c.process == nil || !time.Now().Before(end) || w.ctx.Err() != nil
		if err == nil || isGone(err) || isOver {
			return err
		}
	}
}

// isGone reports whether a program says nothing more: it is silent, or has ended.
func isGone(err error) bool {
	return errors.Is(err, program.ErrSilent) || errors.Is(err, program.ErrEnded)
}

// expect asks a client while its requests pass, and returns an error unless the answer
// begins with one of the words.
func (w *world) expect(c *client, limit time.Duration, words, request string) error {
	answer, err := w.ask(c, limit, request)
	if err != nil {
		return err
	}
	if err := answer.Expect(words); err != nil {
		return c.wrong(request, err)
	}
	return nil
}

// ask asks a client while its requests pass, and returns its answer, which may be that it
// has ended: its process then stays noted, for explanation, until the caller kills it. A take
// that times out is asked for again. As it reads from events itself, it must not be called
// within schedule.play.
func (w *world) ask(c *client, limit time.Duration, request string) (program.Output, error) {
	c.tell(request)

	for end := time.After(limit); ; {
		select {
		case e := <-w.events:
			switch {
			case e.held != nil || e.client != c || e.output.From != c.process:
				w.overhear(e)
			case e.output.Word() == program.TimedOut:
				c.tell(request)
			default:
				return e.output, nil
			}
		case <-end:
			return program.Output{}, c.wrong(request, program.SilentFor(limit))
		case <-w.ctx.Done():
			return program.Output{}, context.Cause(w.ctx)
		}
	}
}
