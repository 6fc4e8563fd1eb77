package explore

import (
	"context"
	cryptorand "crypto/rand"
	"errors"
	"io"
	"math/rand"
	randv2 "math/rand/v2"
	"net"
	"os"
	"sync"
)

// withoutChance lets the process's sources of chance be seeded until it is told to let them be. What cannot be is the
// source of math/rand/v2, and the order of maps.
func withoutChance() (again func()) {
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

// Read implements io.Reader.
func (s *seeded) Read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source.Read(p)
}

// withoutNames lets no name be looked up until it is told to: go-redis looks up the name of its address, whoever dials,
// and a bubble would wait for somebody else's server.
func withoutNames() (again func()) {
	_, _ = net.LookupHost("localhost") // what package net makes at its first look must not belong to a bubble
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no names are looked up while schedules are explored")
	}}
	return func() { net.DefaultResolver = before }
}
