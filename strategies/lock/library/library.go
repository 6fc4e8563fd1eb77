// Package library puts the locks of other modules for Redis under the market, over its one server: [Redsync] and
// [Redislock]. They are apart from package lock because of what they import.
//
// Both set a random token with an expiry, and a script deletes it if it is still there. They promise that
// only its holder releases the lock and that a crashed holder does not hold it for good. Clients' clocks may
// be wrong: the libraries measure only how much time has passed, for which Go uses a clock that cannot be
// set, and send the server durations, not times.
//
// What breaks both: a holder that is paused for longer than the TTL, as with set-px. They do not notice a loss.
package library

import (
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/strategies/param"
)

var (
	promises = lock.Promises{Exclusive: true, OwnerRelease: true, SurvivesCrash: true, ClockIndependent: true}
	params   = []param.Param{lock.TTLParam, lock.PollParam, lock.TimeoutParam}
)
