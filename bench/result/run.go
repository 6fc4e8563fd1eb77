// Package result holds what a run ([Run], stored as run.json) and the fault scenarios ([Faults], stored as faults.json)
// found. It only describes, reads, writes and adds up: it starts no server and draws nothing.
//
// The formats grow. A field is added and never renamed, and keeps its meaning and its unit; its name carries the unit
// (wait_ms). Reading accepts fields that it does not know, so an older marketsim reads what a newer one stored. A new
// field is a pointer or has omitempty, because older files lack it: what is absent was not recorded, and is drawn as
// "-", never as 0.
package result

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
)

// Schema is the version of the run.json format.
const Schema = 1

// Status says whether a run or a row measured all it was asked to.
type Status string

const (
	Complete    Status = "complete"
	Incomplete  Status = "incomplete"  // the environment failed: what was measured until then is kept
	Interrupted Status = "interrupted" // the user stopped it
)

// Run is one run: the content of run.json. Every table and file is made from it, without Redis.
type Run struct {
	Schema   int      `json:"schema"`
	Status   Status   `json:"status"`
	Manifest Manifest `json:"manifest"`
	Rows     []Row    `json:"rows"`
	Claims   []Claim  `json:"claims,omitempty"`

	// Comparisons are of each two strategies under each mix, if the run was made to compare them.
	Comparisons []Comparison `json:"comparisons,omitempty"`

	Sweep *Sweep `json:"sweep,omitempty"` // what a sweep came to; nil: the run is none, or none of its rounds is complete
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
	Config        Config            `json:"config"`
	Seed          uint64            `json:"seed"`
	Started       time.Time         `json:"started"`
}

// Config is the full configuration of a run.
type Config struct {
	Strategies      []string `json:"strategies"` // canonical specs
	Mixes           []string `json:"mixes"`
	DurationSeconds float64  `json:"duration_seconds"`
	WarmupSeconds   float64  `json:"warmup_seconds"`
	Funds           int64    `json:"funds"`
	Wallets         int      `json:"wallets"` // 0: every buyer has an account of its own
	Prefix          string   `json:"prefix"`
	Target          string   `json:"target"`               // the server's address, secrets removed
	Reproduces      []string `json:"reproduces,omitempty"` // the book's tables, for reproduce: "6-1", ...

	Browsers int       `json:"browsers,omitempty"`
	Trials   int       `json:"trials,omitempty"`   // rounds: how often each row is measured
	Margin   *float64  `json:"margin,omitempty"`   // of a comparison: ratios so near to 1 are no difference
	Rates    []float64 `json:"rates,omitempty"`    // purchases a second asked for; empty: closed loop
	Arrivals string    `json:"arrivals,omitempty"` // of the orders of an open loop: poisson or constant
	SLOMS    float64   `json:"slo_ms,omitempty"`   // what the 99th percentile of an open loop should stay under

	Workload
	// Axes are what a sweep varies, each of its points a market of its own; Mixes is then empty. What is not an axis has one
	// value: Clients, or that of Workload.
	Axes    []Axis `json:"axes,omitempty"`
	Clients int    `json:"clients,omitempty"`

	LockServers LockServers `json:"lock_servers,omitzero"`
}

// LockServers are the addresses, secrets removed, of the servers that some locks need besides the market's.
type LockServers struct {
	Redlock   []string `json:"redlock,omitempty"`
	ZooKeeper []string `json:"zookeeper,omitempty"`
	Etcd      []string `json:"etcd,omitempty"`

	// Versions of private servers; empty for a user's own.
	ZooKeeperVersion string `json:"zookeeper_version,omitempty"`
	EtcdVersion      string `json:"etcd_version,omitempty"`
}

// Claim is one claim of what is reproduced and whether the measurement bears it out.
type Claim struct {
	ID        int    `json:"id"`
	Text      string `json:"text"`
	Published string `json:"published"`
	Measured  string `json:"measured"`
	Tolerance string `json:"tolerance"`
	Holds     *bool  `json:"holds"` // null: not decided, or not judged, and Measured says why

	// Older runs lack these: they judged one number.
	Verdict Judgment `json:"verdict,omitempty"`
	Low     *float64 `json:"low,omitempty"`  // the 95% interval of the claim's statistic over the rounds
	High    *float64 `json:"high,omitempty"` // absent: in one trial there is none
}

// Judgment is what rounds say about a claim.
type Judgment string

// The judgments of a claim.
const (
	Holds      Judgment = "holds"        // the interval lies inside the tolerance
	DoesNot    Judgment = "does not"     // the interval lies outside
	NotDecided Judgment = "not decided"  // it lies on both sides, or the rounds were cut short
	NotJudged  Judgment = "not judged"   // nothing can be said: the claim's Measured says why
	OneTrial   Judgment = "in one trial" // fewer than six rounds give no interval; Holds is what the one number says
)

// Write stores the result as indented JSON.
func (r *Run) Write(w io.Writer) error {
	if err := encode(w, r); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

func encode(w io.Writer, result any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(result)
}

// ReadRun reads what Write stored. It refuses what Write would not have stored: another schema, an unknown status, a
// row that is null or is there twice, a mix without sellers or buyers, a negative number, and trailing data.
func ReadRun(r io.Reader) (*Run, error) {
	var res Run
	err := decode(r, &res, "marketsim run --out")
	if err == nil {
		err = res.check()
	}
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	return &res, nil
}

func (r *Run) check() error {
	if r.Schema != Schema {
		return fmt.Errorf("schema %d; this marketsim reads schema %d", r.Schema, Schema)
	}
	if err := r.Status.check(); err != nil {
		return err
	}
	if err := r.Manifest.Config.checkAxes(); err != nil {
		return err
	}
	if r.Rows == nil {
		return errors.New("it has no list of rows")
	}
	if r.Status == Complete && len(r.Rows) == 0 {
		return errors.New("it says that it is complete, and has no row")
	}
	seen := map[string]bool{}
	for i, row := range r.Rows {
		mix := row.Mix()
		name := fmt.Sprintf("%s, trial %d", row.Name(), row.Trial)
		switch err := row.Status.check(); {
		case reflect.ValueOf(row).IsZero():
			return fmt.Errorf("row %d is empty", i+1)
		case err != nil:
			return fmt.Errorf("row %d: %w", i+1, err)
		case row.Strategy == "":
			return fmt.Errorf("row %d names no strategy", i+1)
		case mix.Buyers < 1 || mix.Sellers < 1 && row.Hot == 0:
			return fmt.Errorf("row %d: mix %s: at least one seller and one buyer are needed", i+1, mix)
		case seen[name]:
			return fmt.Errorf("row %d: %s is there twice", i+1, name)
		}
		seen[name] = true
	}
	return negative(reflect.ValueOf(r).Elem(), "")
}

// check refuses what is no status.
func (s Status) check() error {
	switch s {
	case Complete, Incomplete, Interrupted:
		return nil
	}
	return fmt.Errorf("unknown status %q", string(s))
}

// negative refuses a number below zero anywhere in v, which is stored under the name path. Only the coins that an audit
// found may be one, because accounts can be overdrawn.
func negative(v reflect.Value, path string) error {
	var errs []error
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return negative(v.Elem(), path)
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			switch {
			case field.Anonymous: // its fields are stored beside the others
				errs = append(errs, negative(value, path))
			case name != "" && name != "funds":
				errs = append(errs, negative(value, strings.TrimPrefix(path+"."+name, ".")))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			errs = append(errs, negative(v.Index(i), fmt.Sprintf("%s[%d]", path, i)))
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			errs = append(errs, negative(value, path+"."+key.String()))
		}
	case reflect.Int, reflect.Int64:
		if v.Int() < 0 {
			return fmt.Errorf("%s is %d, and cannot be negative", path, v.Int())
		}
	case reflect.Float64:
		if v.Float() < 0 {
			return fmt.Errorf("%s is %v, and cannot be negative", path, v.Float())
		}
	}
	return cmp.Or(errs...)
}

// MaxBytes is how many bytes a stored result has at most. A run of 1,000 rows has 10 MB, a sweep of 40,000 rows 150 MB.
const MaxBytes = 192 << 20

// decode reads one JSON value, of which command makes another, and says in words what is wrong with it.
func decode(r io.Reader, into any, command string) error {
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	switch {
	case err != nil:
		return err
	case len(text) > MaxBytes:
		return fmt.Errorf("it is larger than %d MiB, and no result of marketsim", MaxBytes>>20)
	case len(bytes.TrimSpace(text)) == 0:
		return fmt.Errorf("it is empty; make it anew with '%s'", command)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	err = dec.Decode(into)
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("it is cut short; make it anew with '%s'", command)
	case errors.As(err, &kind):
		return fmt.Errorf("%s is a JSON %s, which it cannot be", cmp.Or(kind.Field, "the whole"), kind.Value)
	case err != nil:
		return fmt.Errorf("it is no JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("data after the end of the result")
	}
	return nil
}
