package chaos

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/marketsim/marketsim/market/step"
)

// FaultKind says what a fault breaks.
type FaultKind string

// The kinds of faults. The first seven strike connections, the next four servers, two clients, and the last two a cluster.
const (
	Latency     FaultKind = "latency"      // what passes is late by some milliseconds, more or less
	Partition   FaultKind = "partition"    // nothing passes; what was sent arrives late, as when a partition heals
	BlackHole   FaultKind = "black-hole"   // what is sent is lost without a word; the connections end with the fault
	Reset       FaultKind = "reset"        // a connection that sends anything is reset, and what it sent is lost
	Cut         FaultKind = "cut"          // a connection ends after some bytes it sends, maybe inside a command
	LostReply   FaultKind = "lost-reply"   // a connection ends after some bytes it receives: what it sent is done
	Refuse      FaultKind = "refuse"       // all connections are closed, and new ones refused
	ServerKill  FaultKind = "server-kill"  // SIGKILL; it comes back with its data
	ServerPause FaultKind = "server-pause" // SIGSTOP, for longer than a lock lives, then SIGCONT
	LockKill    FaultKind = "lock-kill"    // SIGKILL of a server of the locks, where that is not the market's
	LockPause   FaultKind = "lock-pause"   // SIGSTOP of such a server, for longer than a lock lives, then SIGCONT
	ClientPause FaultKind = "client-pause" // a worker is held at a step for longer than a lock lives
	// ProcessPause is SIGSTOP of the process in which half of the workers work, when a buyer of them has come to a step,
	// for longer than a lock lives, then SIGCONT: what renews its locks in the background is stopped, too.
	ProcessPause FaultKind = "process-pause"
	SlotMove     FaultKind = "slot-move" // the market's slot goes to another master; half of its keys have for so long
	// MasterKill is SIGKILL of the market's master of a cluster, whose replica got nothing any more for some time, and is
	// promoted. The killed one comes back as its replica.
	MasterKill FaultKind = "master-kill"
)

// clusterKinds are the faults of a round on a Redis Cluster. Workers connect to its masters, and not through lines.
var clusterKinds = []FaultKind{
	SlotMove, MasterKill, SlotMove, ProcessPause, ClientPause, ClientPause, ClientPause,
}

// kinds are the faults of a round on a single server: each kind once, and the pause of a client, which finds most, several times. The last
// pause, at any place of the round's order, is the one under which most schemes fail: of a buyer about to write.
var kinds = [...]FaultKind{
	Latency, Partition, BlackHole, Reset, Cut, LostReply, Refuse, ServerKill, ServerPause, LockKill, LockPause,
	ProcessPause, ClientPause, ClientPause, ClientPause,
}

// steps are where clients are held.
var steps = [...]step.Name{step.Acquired, step.Read, step.BeforeWrite, step.Written, step.BeforeRelease}

// lines is over how many proxies the workers' connections are spread.
const lines = 3

// A Fault is one fault of a schedule.
type Fault struct {
	Wait   time.Duration // since the fault before was healed
	Kind   FaultKind
	Length time.Duration
	Line   int           // the line it strikes, from 1; 0: all
	Up     bool          // Partition, BlackHole: it strikes what clients send, not what they get
	Delay  time.Duration // Latency: how late, give or take Jitter
	Jitter time.Duration
	Bytes  int64     // Cut, LostReply: how many pass
	Step   step.Name // ClientPause, ProcessPause: where
	Seller bool      // ClientPause: who; buyers else
	Server int       // LockKill, LockPause: which, from 1
}

// String is the fault in words: "black-hole of line 2 for 312ms".
func (f Fault) String() string {
	text := string(f.Kind)
	switch f.Kind {
	case ServerKill:
		return text + ", back after " + f.Length.String()
	case LockKill:
		return fmt.Sprintf("%s of server %d, back after %s", text, f.Server, f.Length)
	case SlotMove:
		return fmt.Sprintf("%s, half done for %s", text, f.Length)
	case MasterKill:
		return fmt.Sprintf("%s after %s without its replica", text, f.Length)
	case ServerPause:
	case LockPause:
		text = fmt.Sprintf("%s of server %d", text, f.Server)
	case ClientPause:
		who := "a buyer"
		if f.Seller {
			who = "a seller"
		}
		text = fmt.Sprintf("%s of %s at %s", text, who, f.Step)
	case ProcessPause:
		text = fmt.Sprintf("%s of half the workers, with a buyer at %s,", text, f.Step)
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
	// Lease is how long a crashed holder's lock lives: pauses are longer. 0: there is no lock that expires.
	Lease time.Duration
	// Locked says that the subject takes locks, and so comes to all steps. One that takes none is held at the step next
	// to the one drawn.
	Locked bool
	// LockServers is how many servers there are for the locks alone that faults may strike.
	LockServers int
	// Cluster says that the market is on a Redis Cluster.
	Cluster bool
	// Child says that half of the workers are in a process that can be paused.
	Child bool
}

const (
	mostWait    = 250 * time.Millisecond
	leastLength = 50 * time.Millisecond
	mostLength  = 500 * time.Millisecond
	leastPause  = 250 * time.Millisecond // of a client or server where no lock expires
	mostBytes   = 1500                   // about as many as browsing and a purchase take, each way
	leastRest   = 100 * time.Millisecond
	pauseShare  = 1.2 // a pause is at least so many leases long
	pauseSpread = 0.6 // and so many more at most
)

// A Schedule is what strikes a row, round after round.
type Schedule []Round

// Schedule draws the schedule. Every round that is not cut short by the end has each kind of fault that there is
// something to strike with, in random order; what does not fit into the time that is left is left out.
func (p Plan) Schedule() Schedule {
	random := rand.New(rand.NewPCG(p.Seed, 0))
	kinds := kinds[:]
	if p.Cluster {
		kinds = clusterKinds
	}
	var rounds Schedule
	for left := p.Duration; left > 0; {
		r, whole := Round{}, true
		for _, i := range random.Perm(len(kinds)) {
			f := p.draw(random, kinds[i])
			if i == len(kinds)-1 {
				f.Step, f.Seller = step.BeforeWrite, false
			}
			took := f.Wait + f.Length
			switch {
			case p.LockServers == 0 && (f.Kind == LockKill || f.Kind == LockPause), !p.Child && f.Kind == ProcessPause:
			case took > left:
				whole = false
			default:
				r.Faults = append(r.Faults, f)
				left -= took
			}
		}
		r.Rest = min(left, leastRest+draw(random, leastRest))
		if !whole || left < mostWait {
			r.Rest = left // this was the last
		}
		left -= r.Rest
		rounds = append(rounds, r)
	}
	return rounds
}

// draw makes a fault of a kind. Every fault draws all that any fault needs, so that what one kind needs does not change
// what comes after it.
func (p Plan) draw(random *rand.Rand, k FaultKind) Fault {
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
		Server: 1 + random.IntN(max(p.LockServers, 1)),
	}
	if !p.Locked {
		switch f.Step {
		case step.Acquired:
			f.Step = step.Read
		case step.BeforeRelease:
			f.Step = step.Written
		}
	}
	share := pauseShare + pauseSpread*random.Float64()
	if k == ServerPause || k == LockPause || k == ClientPause || k == ProcessPause || k == Partition && f.Up {
		f.Length = max(leastPause+f.Length, time.Duration(share*float64(p.Lease))).Round(time.Millisecond)
	}
	return f
}

// draw is a time below most, in whole milliseconds.
func draw(random *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(random.Int64N(cmp.Or(most.Milliseconds(), 1))) * time.Millisecond
}
