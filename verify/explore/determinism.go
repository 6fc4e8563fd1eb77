package explore

import (
	"bytes"
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
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
)

// The same choices have to lead to the same schedule, whenever it is played: what the
// clients draw, look up, or find in a pool must not depend on what was before.

// A chance is what clients draw from. Before each step it is seeded, so that what a client
// draws follows from the step, and not from what others have drawn before.
type chance struct {
	tokens *seeded
	begins int64           // the seed of the step
	first  map[int64]int64 // what is drawn first from math/rand, by the seed
}

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
	debug, reader := os.Getenv(name), cryptorand.Reader
	os.Setenv(name, "randseednop=0,tracebacklabels=1,"+debug)
	c.tokens = &seeded{streams: map[string]*randv2.ChaCha8{}}
	c.first = map[int64]int64{}
	cryptorand.Reader = c.tokens
	return func() {
		os.Setenv(name, debug)
		cryptorand.Reader = reader
	}
}

// seed begins a step.
func (c *chance) seed(of, which, count int) {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], uint64(of))
	binary.LittleEndian.PutUint64(seed[8:], uint64(which))
	binary.LittleEndian.PutUint64(seed[16:], uint64(count))
	c.tokens.begin(seed)

	sum := sha256.Sum256(seed[:])
	c.begins = int64(binary.LittleEndian.Uint64(sum[:]))
	//lint:ignore SA1019 libraries draw from the source of the process
	rand.Seed(c.begins)
}

// drawn reports whether somebody has drawn something from math/rand in this step.
func (c *chance) drawn() bool {
	first, known := c.first[c.begins]
	if !known {
		if len(c.first) > mostFirsts {
			clear(c.first)
		}
		first = rand.New(rand.NewSource(c.begins)).Int63()
		c.first[c.begins] = first
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

func (s *seeded) Read(p []byte) (int, error) {
	client := callingClient()
	s.mu.Lock()
	defer s.mu.Unlock()
	stream := s.streams[client]
	if stream == nil {
		stream = randv2.NewChaCha8(sha256.Sum256(append(s.seed[:], client...)))
		s.streams[client] = stream
	}
	return stream.Read(p)
}

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
	stacks int  // of the profile, so far
	waited bool // or may have
}

// watch has waits noted until end is called, unless somebody else has asked for
// that profile.
func (p *pools) watch() (end func()) {
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
		var profile bytes.Buffer
		_ = pprof.Lookup("block").WriteTo(&profile, 1) // to memory
		p.stacks = n
		p.waited = bytes.Contains(profile.Bytes(), []byte("Semaphore).Acquire"))
	}
	if p.waited {
		emptyPools()
	}
}
