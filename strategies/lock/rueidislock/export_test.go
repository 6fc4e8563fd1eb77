package rueidislock

import "github.com/marketsim/marketsim/strategies/lock"

// Crash ends the connection of a Locker, which then has nothing to release its locks with.
func Crash(l lock.Locker) { l.(*locker).library.Client().Close() }
