package explore

import (
	"context"
	cryptorand "crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"maps"
	"math/rand"
	randv2 "math/rand/v2"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe" // for go:linkname
)

// The same choices have to lead to the same schedule, whenever it is played: what the
// clients draw, look up, or find in a pool must not depend on what was before.

// A chance is what clients draw from. Before each step it is seeded, so that what a client
// draws follows from the step, and not from what others have drawn before.
type chance struct {
	tokens *seeded
	step   stepID          // in which somebody may draw now
	first  map[int64]int64 // what is drawn first from math/rand, by the seed

	// To seed math/rand takes longer than most steps, in most of which nobody draws from it. In
	// a search it is seeded for these alone: they are known from earlier schedules, and nil is
	// every step. In all others it gives what plain says, as long as nobody draws: if somebody does,
	// the schedule has to be played again.
	draws     map[stepID]bool
	plain     []int64
	looked    int  // how many of plain have come; notPlain: the step was seeded
	surprised bool // somebody has drawn in another step than these
	surprises int  // how many schedules in a row were so
}

// A stepID is what a step is known by: its seed, and whether something else than a delivery
// makes it. Clients draw when they send again what was lost, and seldom else. Another request
// is lost in each schedule: known by seeds alone, soon all steps were some in which they draw.
type stepID struct {
	seed    int64
	strikes bool
}

// mostSurprises is how many schedules in a row may have to be played again. Clients that draw
// in other steps each time, because what no seed makes the same decides when, would never be
// played to an end: then every step is seeded.
const mostSurprises = 20

// The seed of chance.plain, how many numbers it has, and chance.looked where it is not meant.
const (
	plainSeed = 1
	plainly   = 10_000
	notPlain  = -1
)

// What a step belongs to.
const (
	ofClient = iota + 1 // the one that goes on, and how much it has learned before
	ofTime              // which passes, and how much has passed before
	ofServer
)

// without lets the process's sources of chance be seeded, except for math/rand/v2 and the
// order of maps.
func (c *chance) without() (restore func()) {
	const name = "GODEBUG"
	debug := os.Getenv(name)
	reader := cryptorand.Reader
	os.Setenv(name, "randseednop=0,tracebacklabels=1,"+debug)
	c.tokens = &seeded{streams: map[string]*randv2.ChaCha8{}, names: map[unsafe.Pointer]string{}}
	c.first = map[int64]int64{}
	c.looked = notPlain
	cryptorand.Reader = c.tokens
	return func() {
		os.Setenv(name, debug)
		cryptorand.Reader = reader
	}
}

// seed begins a step. What is drawn in it does not depend on whether it strikes. Tests replay
// the tokens in results: with other seeds clients draw other delays, and may go another way.
func (c *chance) seed(of, which, count int, strikes bool) {
	c.look() // for the step before, which c.step still is

	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(of))
	binary.LittleEndian.PutUint64(seed[8:], uint64(which))
	binary.LittleEndian.PutUint64(seed[16:], uint64(count))
	c.tokens.begin(seed)

	sum := sha256.Sum256(seed[:])
	c.step = stepID{seed: int64(binary.LittleEndian.Uint64(sum[:])), strikes: strikes}

	// Each look takes one of the plain numbers: they begin again long before they run out.
	switch {
	case c.draws == nil || c.draws[c.step]:
		seedAll(c.step.seed)
		c.looked = notPlain
	case c.looked == notPlain || c.looked > plainly/2:
		seedAll(plainSeed)
		c.looked = 0
	}
}

// seedAll seeds the source of the process.
func seedAll(seed int64) {
	//lint:ignore SA1019 libraries draw from it
	rand.Seed(seed)
}

// trust has math/rand be seeded only for steps in which somebody is known to draw from it.
func (c *chance) trust() {
	source := rand.New(rand.NewSource(plainSeed))
	for range plainly {
		c.plain = append(c.plain, source.Int63())
	}
	c.draws = map[stepID]bool{}
}

// look notes whether somebody has drawn from math/rand in a step for which it was not seeded.
func (c *chance) look() {
	if c.looked == notPlain {
		return
	}
	if rand.Int63() == c.plain[c.looked] {
		c.looked++
		return
	}
	c.draws[c.step] = true
	c.surprised = true
	c.looked = notPlain // from where it goes on is not known
}

// misled reports whether somebody has drawn from math/rand in a schedule that has ended, in a
// step for which it was not seeded. From now on it is seeded for that.
func (c *chance) misled() bool {
	c.look()
	was := c.surprised
	c.surprised = false
	c.surprises++
	if !was {
		c.surprises = 0
	}
	if c.surprises > mostSurprises {
		c.draws = nil
	}
	return was
}

// drawn reports whether somebody has drawn something from math/rand in this step. It draws from
// it itself, so that it is called once in a step, at its end.
func (c *chance) drawn() bool {
	if c.looked != notPlain {
		c.look()
		return c.looked == notPlain
	}

	// The step was seeded: if nobody has drawn, the first number of its seed comes now.
	first, known := c.first[c.step.seed]
	if !known {
		if len(c.first) > mostFirsts {
			clear(c.first)
		}
		first = rand.New(rand.NewSource(c.step.seed)).Int63()
		c.first[c.step.seed] = first
	}
	return rand.Int63() != first
}

// mostFirsts bounds what is remembered of seeds: most of them come again soon.
const mostFirsts = 100_000

// seeded is a source that several goroutines may read. In a step each client has a stream of
// its own: of two that read when the same time has passed, either may be woken first.
type seeded struct {
	mu      sync.Mutex
	seed    [32]byte                   // of the step
	streams map[string]*randv2.ChaCha8 // by the names of the clients that have read in it
	// The names of this schedule's clients, by the labels of their goroutines. The keys are
	// pointers, and no numbers: what they point to stays, and no other label gets its address.
	names map[unsafe.Pointer]string
}

// beginSchedule forgets the clients of the last schedule.
func (s *seeded) beginSchedule() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.names)
}

// knows notes that the goroutine in which it is called is a client's.
func (s *seeded) knows(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[labelsOfGoroutine()] = client
}

func (s *seeded) begin(seed [32]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seed = seed
	clear(s.streams)
}

// readers are the names of the clients that have read in this step.
func (s *seeded) readers() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.streams))
}

// Read implements io.Reader, and stands in for cryptorand.Reader: see without.
func (s *seeded) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	labels := labelsOfGoroutine()
	client, known := s.names[labels]
	if !known { // it has labels of its own besides, or is no client's
		client = callingClient()
		s.names[labels] = client
	}

	stream := s.streams[client]
	if stream == nil {
		stream = randv2.NewChaCha8(sha256.Sum256(append(s.seed[:], client...)))
		s.streams[client] = stream
	}
	return stream.Read(p)
}

// labelsOfGoroutine identifies the labels of the goroutine in which it is called, which those
// that it starts have, too. Package pprof has no function that says so; callingClient asks for
// a stack, which takes long.
//
//go:linkname labelsOfGoroutine runtime/pprof.runtime_getProfLabel
func labelsOfGoroutine() unsafe.Pointer

// callingClient is the name of the client in whose goroutine it is called: the goroutine's
// label has it (see world.label), which a stack begins with. Empty: it is of no client.
func callingClient() string {
	var stack [256]byte
	text := string(stack[:runtime.Stack(stack[:], false)])
	_, label, _ := strings.Cut(text, `"`+clientLabel+`": "`)
	name, _, is := strings.Cut(label, labelOf+"0x")
	if !is {
		return ""
	}
	return name
}

// withoutNames has look-ups fail, which go-redis makes even with a dialer: a bubble would
// wait for a server outside it.
func withoutNames() (restore func()) {
	// What package net makes at its first look must not belong to a bubble.
	_, _ = net.LookupHost("localhost")
	before := net.DefaultResolver
	fails := func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no names are looked up while schedules are explored")
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: fails}
	return func() { net.DefaultResolver = before }
}

// pools tells whether a client has waited for its turn at a pool of connections.
// go-redis keeps the timers of such waits in a sync.Pool. The Go runtime's block profile
// shows whether there was one.
type pools struct {
	stacks int              // of the profile, so far
	known  map[uintptr]bool // by a place in a stack: it is where a client waits at a pool
	waited bool             // or may have
}

// watch has waits noted until end is called, unless somebody else has asked for
// that profile.
func (p *pools) watch() (end func()) {
	p.known = map[uintptr]bool{}
	emptyPools() // of timers of real time, which a bubble would wait for without end
	f := flag.Lookup("test.blockprofile")
	p.waited = f != nil && f.Value.String() != ""
	if p.waited {
		return func() {}
	}
	runtime.SetBlockProfileRate(1)
	return func() { runtime.SetBlockProfileRate(0) }
}

// emptyPools empties each sync.Pool, which takes two collections.
func emptyPools() {
	runtime.GC()
	runtime.GC()
}

// emptyIfWaited empties the pools if a client may have waited: a timer of one bubble
// would end the process in another.
func (p *pools) emptyIfWaited() {
	if n, _ := runtime.BlockProfile(nil); n != p.stacks && !p.waited {
		all := make([]runtime.BlockProfileRecord, n+10)
		n, _ = runtime.BlockProfile(all)
		p.stacks = n
		p.waited = slices.ContainsFunc(all[:n], p.isWait)
	}
	if p.waited {
		emptyPools()
	}
}

// isWait reports whether a stack is that of a wait at a pool.
func (p *pools) isWait(of runtime.BlockProfileRecord) bool {
	for _, pc := range of.Stack() {
		is, known := p.known[pc]
		if !known {
			is = isInSemaphore(pc)
			p.known[pc] = is
		}
		if is {
			return true
		}
	}
	return false
}

// isInSemaphore reports whether a place is in a function that waits for a semaphore of
// go-redis, which may be inlined.
func isInSemaphore(pc uintptr) bool {
	frames := runtime.CallersFrames([]uintptr{pc})
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "Semaphore).Acquire") {
			return true
		}
		if !more {
			return false
		}
	}
}
