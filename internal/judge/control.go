package judge

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/marketsim/marketsim/verify"
)

// A control is a lock of marketsim's own that is known to be wrong, and the
// shortest schedule that shows it.
type control struct {
	spec  string
	token string
	harm  verify.Harm
}

// controls are a release by GET, then DEL, and a take by SETNX, then an expiry.
var controls = []control{
	{
		spec:  "set-ex-compare",
		token: "x5/control/lock/d1.d1.d1.pause1.d2.w1.d1.d1.d1.d1.d1.d2.d2",
		harm:  verify.FreedAnothers,
	},
	{
		spec:  "setnx-expire-naive",
		token: "x5/control/lock/d1.d1.d1.d1.d1.d1.d1.d1.d1.d1.d1.d1.die2",
		harm:  verify.LockedOut,
	},
}

// playControls returns an error if a control does no harm on this machine: the search
// would then miss harm by others, too.
func (o Options) playControls(ctx context.Context) error {
	if len(o.Controls) == 0 {
		return nil
	}
	var all errgroup.Group
	for _, c := range controls {
		all.Go(func() error { return o.playControl(ctx, c) })
	}
	return all.Wait()
}

// playControl plays a control, up to three times: with longer and longer leases unless one was
// asked for, as this machine may stand still now and then.
func (o Options) playControl(ctx context.Context, c control) error {
	o.Command = append(slices.Clone(o.Controls), c.spec) // a clone: controls append side by side
	o.Shown = nil
	o.pool = nil // its worlds run the judged program, and play for the search meanwhile
	asked := o.Lease

	why := "it does no harm"
	for _, lease := range []time.Duration{ShortestLease, time.Second, longestAsked} {
		o.Lease = cmp.Or(asked, lease)
		found, err := Replay(ctx, o, c.token)
		if err == nil && found.Harm == c.harm {
			return nil
		}
		if err != nil {
			why = err.Error()
		}
	}

	return fmt.Errorf("%s, which is wrong, was played as a control, "+
		"so that nothing can be concluded: %s: is this machine too busy?", c.spec, why)
}
