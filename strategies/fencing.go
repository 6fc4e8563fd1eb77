package strategies

import (
	"fmt"
	"strings"

	"github.com/marketsim/marketsim/strategies/param"
)

// The values of the parameter fencing.
const (
	fencingNone  = "none"
	fencingOff   = "off"
	fencingOn    = "on"
	fencingToken = "token"
)

// fencingParam says how the market tells a holder of a lock from a former one. A lock alone cannot: its holder may be
// paused between its last look at the lease and the arrival of its write, for longer than the lease lasts.
//
//   - none: it does not. The write is one MULTI/EXEC, as the book prints it.
//   - on: the holder registers the fencing token of each of its locks (see lock.Fencer) at the market in the same script
//     as its first read. If a larger one is registered there, it is refused as stale, else its own is stored. A second
//     script writes if exactly its own are still registered, and otherwise nothing: market.ErrStale.
//   - off: the same two scripts, which register nothing and compare nothing. The price of fencing is that of on against
//     off; none against off is that of MULTI/EXEC against scripts.
//   - token: as on, with a random token for a fence: any lock will do. It is stored over whatever is registered.
//
// It is not enough that the market remembers the largest fence that has written: a former holder who writes before the
// present one has written, but after it has read, would be let in, and what the present holder has read is no longer
// true. Therefore a fence is registered with the first read. A former holder who writes before that read does no harm: it
// is as if the lock had changed hands after the write.
//
// A random token serves as well for safety. It is optimistic locking by another name: the write is refused if anybody has
// registered since one's first read, and the lock only makes that rare. The order of fences decides no more than who wins
// when a former holder comes late: with fences its registration is refused at once; with tokens it displaces the present
// holder, whose write is then refused.
//
// What breaks it: fences are compared for as long as the market lives, so a lock that starts to count again (its servers
// lost their data, the market did not) has all its holders refused, until they have counted past the last one registered.
// One key a lock stays at the market for its lifetime: who comes late may come very late.
//
// Source: M. Kleppmann, "How to do distributed locking", 2016, on fencing tokens; S. Sanfilippo, "Is Redlock safe?", 2016,
// on random tokens that are compared and set.
var fencingParam = param.Choice("fencing",
	"refuse writes of former holders: on compares the lock's fence, token a random one, which is as safe; "+
		"off runs the same scripts without comparing, none a MULTI/EXEC",
	fencingNone, fencingOff, fencingOn, fencingToken)

// registers reports whether holders leave a fence at the market.
func registers(v param.Values) bool {
	fencing := v.Text(fencingParam)
	return fencing == fencingOn || fencing == fencingToken
}

// FencedLocks names the locks that number their holders.
func (c Catalogue) FencedLocks() []string {
	var fenced []string
	for _, k := range c.Locks {
		if k.Promises.Fenced {
			fenced = append(fenced, k.Name)
		}
	}
	return fenced
}

// checkFencing refuses fencing=on under a lock that does not number its holders.
func checkFencing(s Spec, c Catalogue) error {
	kind, _ := s.Lock()
	if s.Param(fencingParam) != fencingOn || kind.Promises.Fenced {
		return nil
	}
	return fmt.Errorf("the lock %s gives its holders no fence to compare: take one that does (%s), or fencing=%s, which works"+
		" with any lock", kind.Name, strings.Join(c.FencedLocks(), ", "), fencingToken)
}
