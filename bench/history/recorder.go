package history

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/strategies/lock"
)

// A Recorder writes down what one worker did. A nil Recorder writes nothing. It allocates nothing, but for the text of an
// unknown outcome; failures to write are kept for Writer.Finish. It is not safe for concurrent use.
type Recorder struct {
	name  string
	file  *sealed
	began time.Time
	text  []byte // reused
}

// Minted records a batch of items; err is what market.Mint returned.
func (r *Recorder) Minted(start, end time.Time, first market.ItemID, owner market.UserID, err error) {
	if r == nil {
		return
	}
	r.begin("mint", start, end)
	r.number("first", int64(first))
	r.number("user", int64(owner))
	r.outcome(err)
}

// Listed records a listing; err is what List returned.
func (r *Recorder) Listed(start, end time.Time, l market.Listing, err error) {
	if r == nil {
		return
	}
	r.begin("list", start, end)
	r.number("item", int64(l.Item))
	r.number("seller", int64(l.Seller))
	r.number("price", l.Price)
	r.outcome(err)
}

// Purchased records an order; err is what Purchase returned.
func (r *Recorder) Purchased(start, end time.Time, o market.Order, err error) {
	if r == nil {
		return
	}
	r.begin("purchase", start, end)
	r.number("item", int64(o.Item))
	r.number("seller", int64(o.Seller))
	r.number("buyer", int64(o.Buyer))
	r.number("price", o.Price)
	r.outcome(err)
}

// Held records a lock that was held and released.
func (r *Recorder) Held(h lock.Hold) {
	if r == nil {
		return
	}
	r.text = append(r.text[:0], `{"op":"hold","name":`...)
	r.quote(h.Name)
	r.flag("shared", h.Shared)
	r.number("called", r.since(h.Called))
	r.number("acquired", r.since(h.Acquired))
	r.number("releasing", r.since(h.Releasing))
	r.number("released", r.since(h.Released))
	if h.Fence != 0 {
		r.number("fence", h.Fence)
	}
	r.flag("lost", h.Lost)
	r.flag("noticed", h.Noticed)
	r.end()
}

func (r *Recorder) begin(op string, start, end time.Time) {
	r.text = append(r.text[:0], `{"op":"`...)
	r.text = append(r.text, op...)
	r.text = append(r.text, '"')
	r.number("start", r.since(start))
	r.number("end", r.since(end))
}

func (r *Recorder) outcome(err error) {
	switch reason := market.Reason(err); {
	case err == nil:
		r.text = append(r.text, `,"outcome":"applied"`...)
	case reason != "":
		r.text = append(r.text, `,"outcome":"refused","reason":`...)
		r.quote(reason)
	default:
		r.text = append(r.text, `,"outcome":"unknown","error":`...)
		r.quote(err.Error())
	}
	r.end()
}

func (r *Recorder) end() {
	r.text = append(r.text, '}', '\n')
	r.file.line(r.text)
}

func (r *Recorder) since(t time.Time) int64 { return t.Sub(r.began).Nanoseconds() }

func (r *Recorder) number(name string, n int64) {
	r.field(name)
	r.text = strconv.AppendInt(r.text, n, 10)
}

// flag writes a field that is left out when it is false.
func (r *Recorder) flag(name string, set bool) {
	if set {
		r.field(name)
		r.text = append(r.text, "true"...)
	}
}

func (r *Recorder) field(name string) {
	r.text = append(r.text, ',', '"')
	r.text = append(r.text, name...)
	r.text = append(r.text, '"', ':')
}

// quote writes a JSON string.
func (r *Recorder) quote(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			text, _ := json.Marshal(s) // a string can be encoded
			r.text = append(r.text, text...)
			return
		}
	}
	r.text = append(r.text, '"')
	r.text = append(r.text, s...)
	r.text = append(r.text, '"')
}
