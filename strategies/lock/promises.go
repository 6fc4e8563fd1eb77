package lock

// Promises is what a lock claims. Package locktest checks each claim that is made.
type Promises struct {
	// Exclusive is true of every lock that deserves the name, the flawed ones whose flaw needs a crash, a pause or a
	// wrong clock included: no two hold it at the same time while holders finish within its TTL.
	Exclusive        bool
	OwnerRelease     bool // only its holder can release it
	SurvivesCrash    bool // a crashed holder does not hold it for good
	ClockIndependent bool // clients' clocks may be wrong
	Reentrant        bool // its holder can take it again
	Fair             bool // waiters get it in the order they came
	Fenced           bool // each holder gets a larger number than the one before
	SurvivesNodeLoss bool // it works on while a minority of its servers is down
	NoticesLoss      bool // a lease's context is cancelled when the lock is lost
	Shared           bool // readers share it
	ServesWriters    bool // of a shared lock: a writer who waits gets it though readers keep coming
}

// Promise is one of Promises, by the name that people read.
type Promise struct {
	Name string
	Made bool
}

// List returns all promises in the order in which they are shown.
func (p Promises) List() []Promise {
	return []Promise{
		{"exclusive", p.Exclusive},
		{"owner-only release", p.OwnerRelease},
		{"survives a crash", p.SurvivesCrash},
		{"clock-independent", p.ClockIndependent},
		{"reentrant", p.Reentrant},
		{"fair", p.Fair},
		{"fenced", p.Fenced},
		{"survives node loss", p.SurvivesNodeLoss},
		{"notices loss", p.NoticesLoss},
		{"shared", p.Shared},
		{"serves writers", p.ServesWriters},
	}
}
