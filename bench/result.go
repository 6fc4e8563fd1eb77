package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"time"
)

// Schema is the version of the run.json format. Fields are added, never renamed.
const Schema = 1

// Status says whether a run or a row measured all it was asked to.
type Status string

const (
	Complete    Status = "complete"
	Incomplete  Status = "incomplete"  // the environment failed: what was measured until then is kept
	Interrupted Status = "interrupted" // the user stopped it
)

// Result is one run: the content of run.json. Every table and file is made from it, without Redis.
type Result struct {
	Schema   int      `json:"schema"`
	Status   Status   `json:"status"`
	Manifest Manifest `json:"manifest"`
	Rows     []Row    `json:"rows"`
	Claims   []Claim  `json:"claims,omitempty"`
}

// Manifest says what was measured, where and with which settings. Passwords are not in it.
type Manifest struct {
	Version       string            `json:"version"` // marketsim's
	Go            string            `json:"go"`
	OS            string            `json:"os"` // GOOS/GOARCH
	CPU           string            `json:"cpu"`
	CPUs          int               `json:"cpus"`
	Kernel        string            `json:"kernel"`
	Backend       string            `json:"backend"` // url, local, container or embedded
	Server        string            `json:"server"`  // redis, valkey or miniredis
	ServerVersion string            `json:"server_version"`
	ServerConfig  map[string]string `json:"server_config"` // the settings that matter to the numbers, where readable
	Command       string            `json:"command"`       // as typed, secrets removed
	Config        RunConfig         `json:"config"`
	Seed          uint64            `json:"seed"`
	Started       time.Time         `json:"started"`
}

// RunConfig is the full configuration of a run.
type RunConfig struct {
	Strategies      []string `json:"strategies"` // canonical specs
	Mixes           []string `json:"mixes"`
	DurationSeconds float64  `json:"duration_seconds"`
	WarmupSeconds   float64  `json:"warmup_seconds"`
	Funds           int64    `json:"funds"`
	Wallets         int      `json:"wallets"` // 0: every buyer has an account of its own
	Prefix          string   `json:"prefix"`
	Target          string   `json:"target"`               // the server's address, secrets removed
	Reproduces      []string `json:"reproduces,omitempty"` // the book's tables, for reproduce: "6-1", ...

	Browsers    int         `json:"browsers,omitempty"`
	LockServers LockServers `json:"lock_servers,omitzero"`
}

// LockServers are the addresses, secrets removed, of the servers that some locks need besides the market's.
type LockServers struct {
	Redlock   []string `json:"redlock,omitempty"`
	ZooKeeper []string `json:"zookeeper,omitempty"`
	Etcd      []string `json:"etcd,omitempty"`
}

// Row is one strategy under one mix. Counts and histograms cover the operations that were started between the
// end of the warm-up and the end of the row, each followed to its end.
type Row struct {
	Strategy string  `json:"strategy"` // canonical spec
	Sellers  int     `json:"sellers"`
	Buyers   int     `json:"buyers"`
	Trial    int     `json:"trial"` // from 1
	Status   Status  `json:"status"`
	Seconds  float64 `json:"seconds"` // measured time, warm-up and drain excluded

	Listed      int64            `json:"listed"`
	Bought      int64            `json:"bought"`
	Retries     int64            `json:"retries"`      // of purchases, the refused ones included
	ListRetries int64            `json:"list_retries"` // of listings
	Gone        int64            `json:"gone"`         // orders refused because someone else was first
	Contended   int64            `json:"contended"`    // operations given up under contention
	Unknown     int64            `json:"unknown"`      // operations whose outcome the client was not told
	Refused     map[string]int64 `json:"refused"`      // operations certainly not applied, by reason
	LeasesLost  int64            `json:"leases_lost"`  // locks found lost after the write was made

	PurchasesPerSecond    float64 `json:"purchases_per_second"`
	WaitMS                Latency `json:"wait_ms"`                  // of successful purchases: first attempt to end, release included
	ListMS                Latency `json:"list_ms"`                  // of successful listings
	GivenUpMS             Latency `json:"given_up_ms"`              // of orders that were refused
	LockWaitMS            Latency `json:"lock_wait_ms"`             // of successful purchases: waiting for locks
	Polls                 int64   `json:"polls"`                    // failed attempts to take a lock
	RoundTripsPerPurchase float64 `json:"round_trips_per_purchase"` // buyers' round trips, browsing excluded, over bought
	CommandsPerPurchase   float64 `json:"commands_per_purchase"`
	Browsers              int     `json:"browsers,omitempty"`   // workers who looked at listings under a shared lock
	Browsed               int64   `json:"browsed,omitempty"`    // listings they looked at
	TornReads             int64   `json:"torn_reads,omitempty"` // times that they saw an item in no place or in several
	BrowseMS              Latency `json:"browse_ms,omitzero"`   // of looking, lock included

	PerBuyer []int64 `json:"per_buyer"` // purchases of each buyer, to show who starves

	Chaos *Chaos `json:"chaos,omitempty"` // of a rough row: what it went through

	Audit      Audit      `json:"audit"`
	Histograms Histograms `json:"histograms"`
	Warnings   []string   `json:"warnings"`
}

// Latency summarizes a distribution, in milliseconds. All fields are zero when nothing was recorded.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
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

// Claim is one claim of the book and whether the measurement bears it out.
type Claim struct {
	ID        int    `json:"id"`
	Text      string `json:"text"`
	Published string `json:"published"`
	Measured  string `json:"measured"`
	Tolerance string `json:"tolerance"`
	Holds     *bool  `json:"holds"` // null: not judged, and Measured says why
}

// Write stores the result as indented JSON.
func (r *Result) Write(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// ReadResult reads what Write stored. It refuses other schemas, unknown statuses and trailing data.
func ReadResult(r io.Reader) (*Result, error) {
	dec := json.NewDecoder(r)
	var res Result
	if err := dec.Decode(&res); err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	if res.Schema != Schema {
		return nil, fmt.Errorf("read result: schema %d; this marketsim reads schema %d", res.Schema, Schema)
	}
	switch res.Status {
	case Complete, Incomplete, Interrupted:
	default:
		return nil, fmt.Errorf("read result: unknown status %q", res.Status)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("read result: data after the end of the result")
	}
	return &res, nil
}
