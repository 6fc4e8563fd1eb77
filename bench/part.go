package bench

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
)

// part is what one of several processes measured of a row, as it hands it over: as JSON, and the ledgers of its workers
// after that, each with its length before it.
type part struct {
	Row     result.Row    // without what its distributions say
	Took    [waits]string // histograms in V2 compressed form
	Tries   string
	Series  *seriesForm   // nil: nothing was measured
	Within  time.Duration // as join.Start
	Failure string        // why the row is incomplete; empty: it is not
	Ours    bool          // the market may have been seeded by this process

	Unsteady string // at the end of the warm-up; empty: nothing

	ledgers []*market.Ledger
}

// part is what the workers measured. They have ended.
func (m *measurement) part() *part {
	took, tries, _ := m.collector.totals()
	p := &part{
		Row: m.row(), Tries: encode(tries), Series: m.collector.form(), Unsteady: m.unsteady, ledgers: m.ledgers(m.markets[0]),
	}
	p.Row.Histograms = result.Histograms{}
	for w, h := range took {
		p.Took[w] = encode(h)
	}
	if err := m.failure(); err != nil {
		p.Failure = err.Error()
	}
	return p
}

// marshal is what is handed over.
func (p *part) marshal() ([]byte, error) {
	head, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	all := withLength(nil, head)
	for _, l := range p.ledgers {
		form, err := l.MarshalBinary()
		if err != nil {
			return nil, err
		}
		all = withLength(all, form)
	}
	return all, nil
}

func withLength(all, form []byte) []byte {
	return append(binary.AppendUvarint(all, uint64(len(form))), form...)
}

// readPart reads what marshal wrote.
func readPart(all []byte) (*part, error) {
	var forms [][]byte
	for len(all) > 0 {
		n, size := binary.Uvarint(all)
		if size <= 0 || n > uint64(len(all)-size) {
			return nil, errors.New("a part that was handed over is cut short")
		}
		forms = append(forms, all[size:size+int(n)])
		all = all[size+int(n):]
	}
	if len(forms) == 0 {
		return nil, errors.New("a part that was handed over is empty")
	}
	p := &part{}
	if err := json.Unmarshal(forms[0], p); err != nil {
		return nil, fmt.Errorf("read a part that was handed over: %w", err)
	}
	for _, form := range forms[1:] {
		l := market.NewLedger(0)
		if err := l.UnmarshalBinary(form); err != nil {
			return nil, err
		}
		p.ledgers = append(p.ledgers, l)
	}
	return p, nil
}

// seriesForm is a series as a part holds it. Of the waits of a step only those that occurred are in it, by bucket.
type seriesForm struct {
	Step  time.Duration
	Whole int
	Steps []stepForm
}

type stepForm struct {
	Purchases, Retries, Longest int64
	Waits                       map[int]uint32 `json:",omitempty"`
}

// form is the series so far; nil: none is kept.
func (c *collector) form() *seriesForm {
	c.drain()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.series == nil {
		return nil
	}
	f := &seriesForm{Step: c.series.step, Whole: c.series.whole}
	for i := range c.series.steps {
		at := &c.series.steps[i]
		step := stepForm{at.purchases, at.retries, at.longest, map[int]uint32{}}
		for bucket, n := range at.waits {
			if n > 0 {
				step.Waits[bucket] = n
			}
		}
		f.Steps = append(f.Steps, step)
	}
	return f
}

// addForm adds the series of another process, which has the same steps.
func (s *series) addForm(f *seriesForm) error {
	if f.Step != s.step || f.Whole != s.whole || len(f.Steps) > result.MaxPoints {
		return errors.New("the steps of two load machines differ")
	}
	for i, step := range f.Steps {
		if i == len(s.steps) {
			s.steps = append(s.steps, seriesStep{})
		}
		more := seriesStep{purchases: step.Purchases, retries: step.Retries, longest: step.Longest}
		for bucket, n := range step.Waits {
			if bucket < 0 || bucket >= stepBuckets {
				return fmt.Errorf("no wait belongs to bucket %d", bucket)
			}
			more.waits[bucket] = n
		}
		s.steps[i].merge(&more)
	}
	return nil
}

// addTo adds a stored histogram to one of the same range.
func addTo(sum *hdrhistogram.Histogram, stored string) error {
	h, err := hdrhistogram.Decode([]byte(stored))
	if err != nil {
		return fmt.Errorf("read a histogram that was handed over: %w", err)
	}
	if dropped := sum.Merge(h); dropped > 0 {
		return fmt.Errorf("%d times of a histogram that was handed over are out of range", dropped)
	}
	return nil
}
