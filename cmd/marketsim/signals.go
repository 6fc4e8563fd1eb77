package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
)

// stopOnSignal returns a context that ends at the first SIGINT, SIGTERM or SIGHUP. The second ends the program at once, with
// what was given to onLeave; a third does not even wait for that.
func stopOnSignal(parent context.Context, door *exitDoor) context.Context {
	ctx, cancel := context.WithCancel(context.WithValue(parent, doorKey{}, door))
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		fmt.Fprintln(os.Stderr, "marketsim: finishing what is in flight; interrupt again to leave at once")
		cancel()
		<-signals
		fmt.Fprintln(os.Stderr, "marketsim: left at once; keys on a server of yours stay until 'marketsim clean' removes them")
		go func() {
			<-signals
			os.Exit(exitInterrupted)
		}()
		door.leave()
	}()
	return ctx
}

// onLeave says what is to be done when the user leaves at once: a private server must not stay behind.
func onLeave(ctx context.Context, last func() error) {
	if door, ok := ctx.Value(doorKey{}).(*exitDoor); ok {
		door.mu.Lock()
		defer door.mu.Unlock()
		door.last = append(door.last, last)
	}
}

// doorKey is under which a context holds an exitDoor.
type doorKey struct{}

// exitDoor lets one goroutine end the program: main, or the one that was told to leave at once.
type exitDoor struct {
	mu   sync.Mutex
	last []func() error
}

// close keeps others from ending the program from now on.
func (d *exitDoor) close() { d.mu.Lock() }

// leave ends the program.
func (d *exitDoor) leave() {
	d.mu.Lock()
	for _, last := range slices.Backward(d.last) {
		_ = last() // there is nobody left to tell
	}
	os.Exit(exitInterrupted)
}
