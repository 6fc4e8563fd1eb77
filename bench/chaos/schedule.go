package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/marketsim/marketsim/strategies/step"
)

// Kind is a kind of fault.
type Kind string

// The kinds of faults. The first seven strike connections, the next three servers, the last a client.
const (
	Latency     Kind = "latency"      // what passes is late by some milliseconds, more or less
	Stall       Kind = "stall"        // nothing passes, and what was sent arrives late, as after a partition that heals
	BlackHole   Kind = "black-hole"   // what is sent is lost, nobody is told, and the connections end with the fault
	Reset       Kind = "reset"        // a connection that sends anything is reset, and what it sent is lost
	Cut         Kind = "cut"          // a connection ends after some bytes of what it sends: maybe in the middle of a command
	LostReply   Kind = "lost-reply"   // a connection ends after some bytes of what it is told: what was sent is done
	Refuse      Kind = "refuse"       // all connections are closed, and new ones refused
	ServerKill  Kind = "server-kill"  // SIGKILL; it comes back with its data
	ServerPause Kind = "server-pause" // SIGSTOP, for longer than a lock lives, then SIGCONT
	LockKill    Kind = "lock-kill"    // SIGKILL of the server that the locks are on, if they are not on the market's
	ClientPause Kind = "client-pause" // a worker is held at a step for longer than a lock lives
)

// kinds are what a round holds: each kind once, and the pause of a client, which finds most, several times. The last of
// them, wherever the order of the round puts it, is where most schemes fail: of a buyer who is about to write.
var kinds = [...]Kind{
	Latency, Stall, BlackHole, Reset, Cut, LostReply, Refuse, ServerKill, ServerPause, LockKill,
	ClientPause, ClientPause, ClientPause,
}

// Kinds lists every kind once, in the order in which they are shown.
func Kinds() []Kind { return slices.Compact(slices.Clone(kinds[:])) }

// steps are where clients are held.
var steps = [...]step.Name{step.Acquired, step.Read, step.BeforeWrite, step.Written, step.BeforeRelease}

// lines is over how many proxies the workers' connections are spread.
const lines = 3

// A Fault is one fault of a schedule.
type Fault struct {
	Wait   time.Duration // since the fault before was healed
	Kind   Kind
	Length time.Duration
	Line   int           // the line it strikes, from 1; 0: all
	Up     bool          // Stall, BlackHole: it strikes what clients send, not what they get
	Delay  time.Duration // Latency: how late, give or take Jitter
	Jitter time.Duration
	Bytes  int64     // Cut, LostReply: how many pass
	Step   step.Name // ClientPause: where
	Seller bool      // ClientPause: who; buyers else
}

// String is the fault in words: "black-hole of line 2 for 312ms".
func (f Fault) String() string {
	text := string(f.Kind)
	switch f.Kind {
	case ServerKill, LockKill:
		return text + ", back after " + f.Length.String()
	case ServerPause:
	case ClientPause:
		who := "a buyer"
		if f.Seller {
			who = "a seller"
		}
		text = fmt.Sprintf("%s of %s at %s", text, who, f.Step)
	case Latency:
		text = fmt.Sprintf("%s of %s (give or take %s) on %s", text, f.Delay, f.Jitter, f.line())
	case Cut, LostReply:
		text = fmt.Sprintf("%s after %d bytes on %s", text, f.Bytes, f.line())
	default:
		text += " of " + f.line()
	}
	return text + " for " + f.Length.String()
}

func (f Fault) line() string {
	if f.Line == 0 {
		return "all lines"
	}
	return fmt.Sprintf("line %d of %d", f.Line, lines)
}

// A Round is what happens between two quiet points.
type Round struct {
	Faults []Fault
	Rest   time.Duration // after the last fault was healed
}

// A Plan is what a schedule follows from.
type Plan struct {
	Seed     uint64
	Duration time.Duration // of all rounds, audits and the time that healing takes excluded
	// TTL is how long a crashed holder's lock lives: pauses are longer. 0: there is no lock that expires.
	TTL time.Duration
}

const (
	mostWait    = 250 * time.Millisecond
	leastLength = 50 * time.Millisecond
	mostLength  = 500 * time.Millisecond
	leastPause  = 250 * time.Millisecond // of a client or server where no lock expires
	mostBytes   = 1500                   // about as many as a purchase and the look at the market before it take, each way
	leastRest   = 100 * time.Millisecond
	pauseShare  = 1.2 // a pause is at least so many TTLs long
	pauseSpread = 0.6 // and so many more at most
)

// Rounds draws the schedule. Every round that is not cut short by the end has each kind of fault, in random order;
// what does not fit into the time that is left is left out.
func (p Plan) Rounds() []Round {
	random := rand.New(rand.NewPCG(p.Seed, 0))
	var rounds []Round
	for left := p.Duration; left > 0; {
		r := Round{}
		for _, i := range random.Perm(len(kinds)) {
			f := p.draw(random, kinds[i])
			if i == len(kinds)-1 {
				f.Step, f.Seller = step.BeforeWrite, false
			}
			if took := f.Wait + f.Length; took <= left {
				r.Faults = append(r.Faults, f)
				left -= took
			}
		}
		r.Rest = min(left, leastRest+draw(random, leastRest))
		if len(r.Faults) < len(kinds) || left < mostWait {
			r.Rest = left // this was the last
		}
		left -= r.Rest
		rounds = append(rounds, r)
	}
	return rounds
}

// draw makes a fault of a kind. Every fault draws all that any fault needs, so that what one kind needs does not change
// what comes after it.
func (p Plan) draw(random *rand.Rand, k Kind) Fault {
	f := Fault{
		Kind:   k,
		Wait:   draw(random, mostWait),
		Length: leastLength + draw(random, mostLength-leastLength),
		Line:   random.IntN(lines + 1),
		Up:     random.IntN(2) == 0,
		Delay:  5*time.Millisecond + draw(random, 25*time.Millisecond),
		Jitter: draw(random, 5*time.Millisecond),
		Bytes:  random.Int64N(mostBytes),
		Step:   steps[random.IntN(len(steps))],
		Seller: random.IntN(4) == 0, // sellers do not compete for an item
	}
	share := pauseShare + pauseSpread*random.Float64()
	if k == ServerPause || k == ClientPause || k == Stall && f.Up {
		f.Length = max(leastPause+f.Length, time.Duration(share*float64(p.TTL))).Round(time.Millisecond)
	}
	return f
}

// draw is a time below most, in whole milliseconds.
func draw(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(cmp.Or(most.Milliseconds(), 1))) * time.Millisecond
}
