package result

// A Series is how a row went over time: its purchases in steps of equal length, of which the last may be shorter. A purchase
// belongs to the step in which it began, in an open loop to that in which it was due: so the steps add up to the row.
type Series struct {
	StepSeconds float64 `json:"step_seconds"`
	Purchases   []int64 `json:"purchases"`
}

// Open is what an open loop did: orders arrive at times that are fixed beforehand, whether or not a buyer is free. All of
// it is about orders that were due in the row. Those of the warm-up that have not begun when it ends are dropped.
type Open struct {
	Asked    float64 `json:"asked_per_second"`   // the rate that was asked for
	Offered  float64 `json:"offered_per_second"` // the rate at which orders fell due in the row
	Reached  float64 `json:"reached_per_second"` // the rate at which purchases were made
	Arrivals string  `json:"arrivals"`           // poisson or constant
	Backlog  int64   `json:"backlog"`            // orders that were due and not done when the row ended
	GivenUp  int64   `json:"given_up"`           // orders that got nothing within 10 s

	// The row's WaitMS is latency: it counts from the time at which the order was due. ServiceMS counts from when a buyer
	// took it.
	ServiceMS           Latency `json:"service_ms"`
	WithoutStockSeconds float64 `json:"without_stock_seconds"` // the time in which nothing was listed
}

// WasReached reports whether purchases were made at the rate at which orders fell due, but for 2%: some orders are under
// way when a row ends.
func (o *Open) WasReached() bool { return o.Reached >= 0.98*o.Offered }

// Tries is how often one purchase was tried until it was applied: once, and once more for each transaction that was
// aborted and for each attempt that did not get a lock. Percentiles are by nearest rank, exact below 2,048.
type Tries struct {
	Mean float64 `json:"mean"`
	P50  int64   `json:"p50"`
	P99  int64   `json:"p99"`
	Max  int64   `json:"max"`
}

// Cost is what one applied purchase took, everything included that buyers did for it: orders in vain as well, but not
// browsing. Fields that could not be found out are absent.
type Cost struct {
	Market      Bill  `json:"market,omitzero"`        // with the market's server
	LockServers *Bill `json:"lock_servers,omitempty"` // with servers that only locks use
	// Aborted is the part of Market that went into tries which changed nothing: orders that were refused, and tries
	// that were thrown away and made again.
	Aborted *Bill `json:"aborted,omitempty"`

	// ServerUS is the CPU time of the market's server in the row over its purchases, listings and browsing included, in
	// microseconds; ServerUserUS and ServerSysUS are its parts.
	ServerUS     *float64 `json:"server_us,omitempty"`
	ServerUserUS *float64 `json:"server_user_us,omitempty"`
	ServerSysUS  *float64 `json:"server_sys_us,omitempty"`
	// Commands is the time that the server spent in commands, by name, in microseconds for each purchase. A script's inner
	// commands count in their own name and in the script's, too.
	Commands map[string]float64 `json:"commands_us,omitempty"`
	ClientUS *float64           `json:"client_us,omitempty"` // CPU time of this process, sellers and driver included
}

// Bill is what connections carried for one purchase.
type Bill struct {
	RoundTrips    float64 `json:"round_trips"`
	Commands      float64 `json:"commands"`
	BytesSent     float64 `json:"bytes_sent"`
	BytesReceived float64 `json:"bytes_received"`
}

// Split is the mean time of an applied purchase, in milliseconds. The parts add up to the row's mean wait, but for what
// its histogram rounds: less than 1 us and 0.1%. In an open loop they add up to the mean time of the try that bought.
type Split struct {
	LockWait float64 `json:"lock_wait"` // waiting for locks
	LockHold float64 `json:"lock_hold"` // holding them
	Thrown   float64 `json:"thrown"`    // in tries that were thrown away
	Rest     float64 `json:"rest"`
}

// Client is how this process, which makes the load, fared in a row.
type Client struct {
	CPU            float64 `json:"cpu"`                      // CPU time over what the machine's cores offer it, 0 to 1
	GC             float64 `json:"gc"`                       // the part of its CPU time that went into garbage collection
	SchedulerP99MS float64 `json:"scheduler_p99_ms"`         // how long goroutines that could run waited for a core
	Saturated      bool    `json:"saturated"`                // the number is this process's, not Redis's or contention's
	RecorderWaits  int64   `json:"recorder_waits,omitempty"` // times that a worker waited for its recorder
}

// Fairness is how evenly the buyers of a row came to buy.
type Fairness struct {
	// Jain is the index of R. Jain, D. Chiu and W. Hawe (DEC-TR-301, 1984): 1 when all buyers bought the same, 1/n when
	// one of n bought everything.
	Jain   float64 `json:"jain"`
	Fewest int64   `json:"fewest"` // purchases of the buyer who made the fewest
	Most   int64   `json:"most"`
	// LongestGapSeconds is the longest time between two purchases of one buyer, or before its first or after its last.
	LongestGapSeconds float64 `json:"longest_gap_seconds"`
}

// Node is what one of a row's servers had of it.
type Node struct {
	Address            string  `json:"address"` // when the row began
	Markets            int     `json:"markets"`
	Bought             int64   `json:"bought"`
	PurchasesPerSecond float64 `json:"purchases_per_second"`
	// ServerUS is the CPU time of the server in the row over the purchases of its markets, in microseconds; absent where it
	// does not tell, or where a market left it meanwhile.
	ServerUS *float64 `json:"server_us,omitempty"`
}

// Little is Little's law in a closed loop: as many buyers are busy, on average, as purchases are made in a second
// times the mean time that one takes, in seconds. It checks the row's own times: they are missing some, or hold too
// many, where the two differ.
//
// Source: J. D. C. Little, "A Proof for the Queuing Formula: L = lambda W", Operations Research 9(3), 1961.
type Little struct {
	// BusyBuyers is how many buyers did something on average: browse, order or list again, but not wait for listings.
	BusyBuyers float64 `json:"busy_buyers"`
	// ThroughputTimesTime is purchases a second times the mean of all that a purchase takes a buyer: its wait, orders
	// that were refused before it, browsing, and listing again where items circulate.
	ThroughputTimesTime float64 `json:"throughput_times_time"`
}
