package result

import (
	"fmt"
	"regexp"
	"strconv"
)

// Row is one strategy under one mix. Counts and histograms cover the operations that were started between the
// end of the warm-up and the end of the row, each followed to its end.
type Row struct {
	Strategy string  `json:"strategy"` // canonical spec, or as it was typed where that is compared with itself
	Sellers  int     `json:"sellers"`
	Buyers   int     `json:"buyers"`
	Trial    int     `json:"trial"` // from 1
	Status   Status  `json:"status"`
	Seconds  float64 `json:"seconds"` // measured time, warm-up and drain excluded
	Workload

	Listed      int64            `json:"listed"`
	Bought      int64            `json:"bought"`
	Retries     int64            `json:"retries"`      // of purchases, the refused ones included
	ListRetries int64            `json:"list_retries"` // of listings
	Gone        int64            `json:"gone"`         // orders refused because someone else was first
	Contended   int64            `json:"contended"`    // operations given up under contention
	Unknown     int64            `json:"unknown"`      // operations whose outcome the client does not know
	Refused     map[string]int64 `json:"refused"`      // operations certainly not applied, by reason
	LeasesLost  int64            `json:"leases_lost"`  // locks found lost after the write was made

	PurchasesPerSecond float64 `json:"purchases_per_second"`
	WaitMS             Latency `json:"wait_ms"`      // of successful purchases, release included
	ListMS             Latency `json:"list_ms"`      // of successful listings
	GivenUpMS          Latency `json:"given_up_ms"`  // of orders that were refused
	LockWaitMS         Latency `json:"lock_wait_ms"` // of successful purchases: waiting for locks
	Polls              int64   `json:"polls"`        // failed attempts to take a lock
	// RoundTripsPerPurchase are the buyers' round trips, browsing excluded, over Bought. They and the commands are zero, and
	// absent in JSON, where nothing was bought or where workers share a connection.
	RoundTripsPerPurchase float64 `json:"round_trips_per_purchase,omitzero"`
	CommandsPerPurchase   float64 `json:"commands_per_purchase,omitzero"`
	Browsers              int     `json:"browsers,omitempty"`   // workers who looked at listings under a shared lock
	Browsed               int64   `json:"browsed,omitempty"`    // listings they looked at
	TornReads             int64   `json:"torn_reads,omitempty"` // times that they saw an item in no place or in several
	BrowseMS              Latency `json:"browse_ms,omitzero"`   // of looking, lock included

	// Older runs lack these.
	BuyerPolls             *int64   `json:"buyer_polls,omitempty"`               // Polls of orders
	SellerPolls            *int64   `json:"seller_polls,omitempty"`              // and of listings
	FailedReleases         *int64   `json:"failed_releases,omitempty"`           // locks that could not be given back, lost ones excluded
	BytesPerPurchase       *float64 `json:"bytes_per_purchase,omitempty"`        // sent and received, as RoundTripsPerPurchase
	LockServersPerPurchase *Traffic `json:"lock_servers_per_purchase,omitempty"` // the same, with servers that only locks use
	// CommandsPerSecond is what all workers sent to the market's server, minting and browsing included. It is absent where
	// they share a connection.
	CommandsPerSecond *float64 `json:"commands_per_second,omitempty"`
	// BackgroundPerSecond is what renewals, subscriptions and heartbeats of all workers exchange with any server.
	BackgroundPerSecond *Traffic `json:"background_per_second,omitempty"`
	// LongestSilenceMS is the longest time in which workers waited for the market's server and none got an answer.
	LongestSilenceMS *float64 `json:"longest_silence_ms,omitempty"`

	Series   *Series   `json:"series,omitempty"`   // how the row went over time
	Tries    *Tries    `json:"tries,omitempty"`    // of successful purchases
	Cost     *Cost     `json:"cost,omitempty"`     // of a purchase
	TimeMS   *Split    `json:"time_ms,omitempty"`  // where the mean time of a purchase goes
	Fairness *Fairness `json:"fairness,omitempty"` // among the buyers
	Client   *Client   `json:"client,omitempty"`   // whether this process kept up
	Little   *Little   `json:"little,omitempty"`   // whether its times fit its throughput
	Open     *Open     `json:"open,omitempty"`     // nil: the loop was closed

	Nodes []Node `json:"nodes,omitempty"` // the servers of a row with several markets

	PerBuyer []int64 `json:"per_buyer"` // purchases of each buyer, to show who starves

	Audit      Audit      `json:"audit"`
	Histograms Histograms `json:"histograms"`
	Warnings   []string   `json:"warnings"`
}

// Name tells a row from the others of its trial: its strategy, its mix, its workload where that is not the book's, and
// the rate that it was asked for if its loop was open, as in "fine 5x5", "fine 0x5 hot=1" or "fine 5x5 at 2500/s".
func (r Row) Name() string {
	if r.Open == nil {
		return RowName(r.Strategy, r.Mix(), r.Workload, 0)
	}
	return RowName(r.Strategy, r.Mix(), r.Workload, r.Open.Asked)
}

// Place is the row's mix, with its workload where that is not the book's, as in "5x5" and "0x5 hot=1".
func (r Row) Place() string { return place(r.Mix().String(), r.Workload) }

// Mix is the row's mix.
func (r Row) Mix() Mix { return Mix{r.Sellers, r.Buyers} }

// RowName is the name of a row that is not measured yet. A rate of 0 means that its loop is closed.
func RowName(strategy string, mix Mix, workload Workload, rate float64) string {
	name := strategy + " " + place(mix.String(), workload)
	if rate != 0 {
		name += " at " + strconv.FormatFloat(rate, 'f', -1, 64) + "/s"
	}
	return name
}

// Mix is how many workers sell and how many buy, written 5x1.
type Mix struct{ Sellers, Buyers int }

func (m Mix) String() string { return fmt.Sprintf("%dx%d", m.Sellers, m.Buyers) }

var writtenMix = regexp.MustCompile(`^(0|[1-9][0-9]*)x(0|[1-9][0-9]*)$`)

// ReadMix reads a mix as String writes it; false if the text is none, or of numbers that are too large for a computer.
func ReadMix(text string) (Mix, bool) {
	parts := writtenMix.FindStringSubmatch(text)
	if parts == nil {
		return Mix{}, false
	}
	sellers, err1 := strconv.Atoi(parts[1])
	buyers, err2 := strconv.Atoi(parts[2])
	if err1 != nil || err2 != nil {
		return Mix{}, false
	}
	return Mix{Sellers: sellers, Buyers: buyers}, true
}

// Latency summarizes a distribution, in milliseconds. All fields are zero when nothing was recorded.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	// Count is how many operations stand behind it; absent in older runs.
	Count *int64 `json:"count,omitempty"`
}

// Traffic is what connections carried, for each purchase or in each second.
type Traffic struct {
	RoundTrips float64 `json:"round_trips"` // waits for a reply, however many commands were sent at a time
	Commands   float64 `json:"commands"`
	Bytes      float64 `json:"bytes"` // sent and received; of etcd, without HTTP/2's headers
}

// Audit is the verdict on a row's market: see market.Audit.
type Audit struct {
	Done          bool     `json:"done"` // false: the market could not be read; OK then means nothing
	OK            bool     `json:"ok"`
	Items         int64    `json:"items"` // items accounted for
	Funds         int64    `json:"funds"` // coins found in all accounts
	ItemProblems  int64    `json:"item_problems"`
	MoneyProblems int64    `json:"money_problems"`
	Applied       int64    `json:"settled_applied"`     // operations of unknown outcome found applied
	NotApplied    int64    `json:"settled_not_applied"` // and found not applied
	Problems      []string `json:"problems"`            // the first of them, in words
}

// Histograms holds HDR histograms in V2 compressed form (base64), in microseconds.
type Histograms struct {
	Purchase string `json:"purchase"`
	List     string `json:"list"`
}
