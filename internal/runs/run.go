// Package runs holds what a run came to, as run.json stores it: a [Run] has its rows
// round by round, and [Run.Groups] are those of each Point. It measures nothing.
package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/stored"
)

// Schema is the version of the form in which runs are stored. Since 3 a run names the
// metrics that it compares, its thresholds, and how orders at a rate arrive; since 4 a row
// may be one of several servers, since 5 it has the percentiles of its intervals, and since
// 6 it may have several markets, and tells what each master did. Read takes what was stored
// since oldestSchema.
const (
	Schema       = 6
	oldestSchema = 2
)

// A Run is what one command measured.
type Run struct {
	Schema   int           `json:"schema"`
	Status   stored.Status `json:"status"`
	Manifest Manifest      `json:"manifest"`
	Rows     []result.Row  `json:"rows"` // in the order in which they were measured
	Claims   []Claim       `json:"claims,omitempty"`
	Verdicts *Verdicts     `json:"verdicts,omitempty"` // nil: only the rows are written
}

// Manifest says where, how and with what a run was made.
type Manifest struct {
	Version       string `json:"version"` // marketsim's
	Go            string `json:"go"`
	OS            string `json:"os"` // GOOS/GOARCH
	CPU           string `json:"cpu"`
	CPUs          int    `json:"cpus"`
	Kernel        string `json:"kernel"`
	Backend       string `json:"backend"` // url, local, cluster, container or embedded
	Server        string `json:"server"`  // redis, valkey or miniredis
	ServerVersion string `json:"server_version"`
	// The settings that matter to the numbers, where readable.
	ServerConfig map[string]string `json:"server_config"`
	// Servers are those of rows that have a Server; then the three above are the first's.
	Servers []Server        `json:"servers,omitempty"`
	Command string          `json:"command"` // as typed, secrets removed
	Scripts []stored.Script `json:"scripts,omitempty"`
	Config  Config          `json:"config"`
	Seed    uint64          `json:"seed"`
	Started time.Time       `json:"started"`
}

// A Server is one of several on which rows were measured.
type Server struct {
	Name    string            `json:"name"`
	Product string            `json:"product"` // redis or valkey
	Version string            `json:"version"`
	Config  map[string]string `json:"config"` // the settings that matter to the numbers
}

// ServerOf is the product and the version of the server on which a point was measured.
func (m Manifest) ServerOf(p result.Point) (product, version string) {
	for _, s := range m.Servers {
		if s.Name == p.Server {
			return s.Product, s.Version
		}
	}
	return m.Server, m.ServerVersion
}

// Config is what was to be measured.
type Config struct {
	Points          []result.Point `json:"points"` // the plan: each round has each of them once
	Trials          int            `json:"trials"` // rounds
	DurationSeconds float64        `json:"duration_seconds"`
	WarmupSeconds   float64        `json:"warmup_seconds"`
	// Margin is how far from 1 a ratio may be and still be no difference, such as 0.05;
	// nil: nothing is compared.
	Margin *float64 `json:"margin,omitempty"`
	// Metrics are what is compared, by the names of the CSV; nil: purchases/s.
	Metrics    []string    `json:"metrics,omitempty"`
	Thresholds []Threshold `json:"thresholds,omitempty"` // that rows must meet
	Axes       []Axis      `json:"axes,omitempty"`       // what a sweep varies, the last one fastest
	// For reproduce: the book's tables, "6-1", ..., or "jedis-2017" alone.
	Reproduces []string `json:"reproduces,omitempty"`
	// SLOMS is after how many ms an order of an open loop is late; 0: only those
	// that bought nothing are.
	SLOMS  float64 `json:"slo_ms,omitempty"`
	Prefix string  `json:"prefix"`
	Target string  `json:"target"` // the server's address, secrets removed
	// LockServers are the servers of locks that are kept elsewhere: name and version,
	// or address, by the lock.
	LockServers map[string]string `json:"lock_servers,omitempty"`
}

// Subjects are those of the plan, in its order, each once: what is compared.
func (c Config) Subjects() []string { return distinct(c.Points, result.Point.Subject) }

// Places are those of the plan, in its order, each once: where subjects are compared.
func (c Config) Places() []string { return distinct(c.Points, result.Point.Place) }

// Judged are the metrics that are compared.
func (c Config) Judged() []JudgedMetric {
	all, _ := ParseMetrics(c.Metrics) // Read has refused a run with others
	return all
}

func distinct(points []result.Point, of func(result.Point) string) (all []string) {
	seen := map[string]bool{}
	for _, p := range points {
		if name := of(p); !seen[name] {
			seen[name] = true
			all = append(all, name)
		}
	}
	return all
}

// A Group is the rows of one Point, one a round, in the order of rounds.
type Group struct {
	result.Point
	Rows []result.Row
}

// Problem is the first Problem that a row of the group has; empty: none.
func (g Group) Problem() (problem string) {
	for i := range g.Rows {
		problem = cmp.Or(problem, g.Rows[i].Problem())
	}
	return problem
}

// Values are those of a Metric in the group's rows.
func (g Group) Values(m Metric) []float64 {
	all := make([]float64, len(g.Rows))
	for i := range g.Rows {
		all[i] = m.Of(&g.Rows[i])
	}
	return all
}

// Groups are the rows of each Point that has any, in the order of the plan. Points that the plan
// lacks come last. No group is empty.
func (r *Run) Groups() []Group {
	byPoint := map[result.Point][]result.Row{}
	points := slices.Clone(r.Manifest.Config.Points)
	for _, row := range r.Rows {
		byPoint[row.Point] = append(byPoint[row.Point], row)
		points = append(points, row.Point)
	}

	var all []Group
	for _, p := range points {
		rows, first := byPoint[p]
		if first {
			delete(byPoint, p) // a point is in the list once for the plan, and once for each row
			slices.SortStableFunc(rows, func(a, b result.Row) int { return cmp.Compare(a.Trial, b.Trial) })
			all = append(all, Group{p, rows})
		}
	}
	return all
}

// CompleteRounds are the rows of the rounds in which each Point of the plan has a
// complete row, in the order of rounds. Rows are only counted: a run measures each Point of its
// plan once a round and no other, and Read refuses a row that is there twice.
func (r *Run) CompleteRounds() [][]result.Row {
	byTrial := map[int][]result.Row{}
	for _, row := range r.Rows {
		if row.Status == stored.Complete {
			byTrial[row.Trial] = append(byTrial[row.Trial], row)
		}
	}

	var rounds [][]result.Row
	for _, trial := range slices.Sorted(maps.Keys(byTrial)) {
		if rows := byTrial[trial]; len(rows) == len(r.Manifest.Config.Points) {
			rounds = append(rounds, rows)
		}
	}
	return rounds
}

// Claim is one claim of the book, and whether the measurement bears it out.
type Claim struct {
	ID        int      `json:"id"`
	Text      string   `json:"text"`
	Published string   `json:"published"`
	Measured  string   `json:"measured"`
	Tolerance string   `json:"tolerance"`
	Verdict   Judgment `json:"verdict"`
	// The 95% interval of the claim's statistic over the rounds.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"` // nil: in fewer than six rounds there is none
}

// Judgment is what rounds say about a claim.
type Judgment string

// The judgments of a claim.
const (
	Holds   Judgment = "holds"    // the interval lies inside the tolerance
	DoesNot Judgment = "does not" // the interval lies outside
	// It holds in each, and the rounds are too few for an interval.
	InEvery Judgment = "in every round"
	// The interval lies on both sides, there is none, or rounds are missing.
	NotDecided Judgment = "not decided"
	NotJudged  Judgment = "not judged" // nothing can be said: the claim's Measured says why
)

// Write stores the result as JSON, in one line: indented it would be larger by a quarter.
func (r *Run) Write(w io.Writer) error { return stored.Encode(w, "result", r, "") }

// Read reads what Write stored, in this schema or an older one, as if it had been stored in
// this one. It refuses what Write would not have stored: a later schema, an unknown status,
// a row that is there twice, a mix without sellers or buyers, a negative number, and
// trailing data.
func Read(r io.Reader) (*Run, error) {
	var res Run
	err := stored.Decode(r, &res, "marketsim run --out DIR")

	// Another schema may have fields that are unknown here. check then refuses the schema before
	// it looks at what could not be read.
	if err == nil || res.Schema != 0 && !isRead(res.Schema) {
		err = res.check()
	}
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	res.Schema = Schema
	res.Verdicts = nil // they follow from the rows
	return &res, nil
}

func isRead(schema int) bool { return schema >= oldestSchema && schema <= Schema }

// MostTrials is how many rounds a run can have: each is gone through for every
// pair that is compared.
const MostTrials = 100_000

// check refuses what no marketsim has stored: a report would divide by it, or take hours. The
// schema comes first, as Read relies on.
func (r *Run) check() error {
	if !isRead(r.Schema) {
		return fmt.Errorf("schema %d; this marketsim reads schemas %d to %d: measure again, "+
			"or use the marketsim that stored it", r.Schema, oldestSchema, Schema)
	}
	if err := r.Status.Check(); err != nil {
		return err
	}
	if r.Status == stored.Complete && len(r.Rows) == 0 {
		return errors.New("it says that it is complete, and has no row")
	}

	c := &r.Manifest.Config
	if c.Trials < 0 || c.Trials > MostTrials || len(c.Axes) > 2 {
		return fmt.Errorf("it has %d rounds and %d axes: want at most %d rounds and two axes",
			c.Trials, len(c.Axes), MostTrials)
	}
	for _, axis := range c.Axes {
		if err := axis.check(); err != nil {
			return err
		}
	}

	if _, err := ParseMetrics(c.Metrics); err != nil {
		return fmt.Errorf("it compares by what is not known: %w", err)
	}

	// Verdicts compare rows of one round: each may be there once.
	type measured struct {
		result.Point
		trial int
	}
	seen := map[measured]bool{}
	for i, row := range r.Rows {
		at := measured{row.Point, row.Trial}
		if err := checkRow(&row); err != nil {
			return fmt.Errorf("row %d: %w", i+1, err)
		}
		if !r.Manifest.has(row.Server) {
			return fmt.Errorf("row %d: the server %q is none of the run's", i+1, row.Server)
		}
		if seen[at] {
			return fmt.Errorf("row %d: %s, trial %d, is there twice", i+1, row.Name(), row.Trial)
		}
		seen[at] = true
	}
	return nil
}

// has reports whether a server is one of the run's; an empty name is the only one's.
func (m Manifest) has(server string) bool {
	if server == "" {
		return len(m.Servers) == 0
	}
	return slices.ContainsFunc(m.Servers, func(s Server) bool { return s.Name == server })
}

// checkRow refuses a row that no run has stored. One load has one form, such as Markets 0 for
// a single market, because points are compared with ==. A metric that the row lacks is NaN, and
// passes.
func checkRow(r *result.Row) error {
	switch {
	case r.Strategy == "":
		return fmt.Errorf("it names no strategy")
	case r.Mix.Buyers < 1 || r.Mix.Sellers < 1 && r.Hot == 0:
		return fmt.Errorf("mix %s: at least one seller and one buyer are needed", r.Mix)
	case r.Arrivals != "" && (r.Arrivals != result.ConstantArrivals || r.Rate == 0):
		return fmt.Errorf("arrivals %q at the rate %v", r.Arrivals, r.Rate)
	case r.Markets < 0 || r.Markets == 1:
		return fmt.Errorf("%d markets: want 2 or more, or 0 for one", r.Markets)
	case r.Trial < 1:
		return fmt.Errorf("trial %d: want 1 or more", r.Trial)
	case r.ContendedBeside < 0 || r.ContendedOrders() < 0:
		return fmt.Errorf("contended_beside is %d, of %d", r.ContendedBeside, r.Refused["contended"])
	}

	for _, m := range Metrics() {
		if v := m.Of(r); v < 0 {
			return fmt.Errorf("%s is %v, and cannot be negative", m.Name, v)
		}
	}
	if i := slices.IndexFunc(r.Course, func(n int64) bool { return n < 0 }); i >= 0 {
		return fmt.Errorf("course[%d] is %d, and cannot be negative", i, r.Course[i])
	}
	for _, all := range [][]float64{r.CourseP50MS, r.CourseP99MS} {
		if n := len(all); n > 0 && n != len(r.Course) || slices.ContainsFunc(all, func(v float64) bool { return v < 0 }) {
			return fmt.Errorf("percentiles %v of a course of %d intervals", all, len(r.Course))
		}
	}
	if err := checkMasters(r.Masters); err != nil {
		return err
	}
	return stored.Status(r.Status).Check()
}

// checkMasters refuses masters of a row that no run has stored.
func checkMasters(all []result.Master) error {
	seen := map[string]bool{}
	for _, m := range all {
		negative := m.Bought < 0 || m.Commands != nil && *m.Commands < 0 || m.CPU != nil && *m.CPU < 0
		if m.Address == "" || seen[m.Address] || m.Markets < 1 || negative {
			return fmt.Errorf("the master %q has %d markets, and %d purchases", m.Address, m.Markets, m.Bought)
		}
		seen[m.Address] = true
	}
	return nil
}
