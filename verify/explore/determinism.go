package explore

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"flag"
	"io"
	"math/rand"
	randv2 "math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
)

// The same choices have to lead to the same schedule, whenever it is played: what the
// clients draw, look up, or find in a pool must not depend on what was before.

// withoutChance lets the process's sources of chance be seeded, except for
// math/rand/v2 and the order of maps.
func withoutChance() (restore func()) {
	const name = "GODEBUG"
	debug, reader := os.Getenv(name), cryptorand.Reader
	os.Setenv(name, "randseednop=0,"+debug)
	return func() {
		os.Setenv(name, debug)
		cryptorand.Reader = reader
	}
}

// seed has a schedule draw the same delays and tokens as the ones before.
func seed() {
	cryptorand.Reader = &seeded{source: randv2.NewChaCha8([32]byte{1})}
	//lint:ignore SA1019 libraries draw from the source of the process
	rand.Seed(1)
}

// seeded is a source that several goroutines may read.
type seeded struct {
	mu     sync.Mutex
	source io.Reader
}

func (s *seeded) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source.Read(p)
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
