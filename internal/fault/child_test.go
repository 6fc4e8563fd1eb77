package fault

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/step"
	"github.com/marketsim/marketsim/strategies"
	"github.com/marketsim/marketsim/strategies/catalogue"
	"github.com/marketsim/marketsim/verify"
)

// TestServeRefuses: a child reports what it cannot do, and ends.
func TestServeRefuses(t *testing.T) {
	const unknown = `invalid strategy \"x\"`
	for _, c := range []struct{ name, in, says, reports string }{
		{"no configuration", "", "read the client's configuration", ""},
		{"a configuration that is none", "hello", "read the client's configuration", ""},
		{"an unknown scheme", `{"Scheme":"x"}`, `invalid strategy "x"`, `"Error":"` + unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			err := serve(strings.NewReader(c.in), &out, catalogue.Full())
			said := strings.Contains(out.String(), c.reports)
			if err == nil || !strings.Contains(err.Error(), c.says) || !said {
				t.Errorf("it says %v and reports %q, want %q and %q", err, out.String(), c.says, c.reports)
			}
		})
	}
}

func TestUnknownCommand(t *testing.T) {
	if e := new(child).work(command{Do: "juggle"}); e.Error != `unknown command "juggle"` {
		t.Errorf("it reports %+v", e)
	}
}

// TestServeChildElsewhere returns in a process that is no child.
func TestServeChildElsewhere(t *testing.T) {
	ServeChild(func() strategies.Catalogue {
		t.Error("the catalogue was asked for")
		return catalogue.Full()
	})
}

// TestStepsBeforeTheFirstOperation: a lock may call steps while it is opened;
// nothing holds it there.
func TestStepsBeforeTheFirstOperation(t *testing.T) {
	var told bytes.Buffer
	c := newChild(&told)
	defer c.still.end()
	c.observe(t.Context(), step.Acquired)
	if told.Len() > 0 {
		t.Errorf("it told %s", &told)
	}
}

// TestOnce: a client that tries once gives up while another holds the lock, and
// takes one that is free.
func TestOnce(t *testing.T) {
	r := startRunner(t)
	for _, name := range []string{"coarse:set-px+watchdog", "coarse:zookeeper"} {
		f, err := r.runCell(t.Context(), cell{custom(func(s *setup) observed {
			s.config.Once = true
			a, b := s.client("A"), s.client("B")

			start := time.Now()
			a.buyUntil(s.item(0), step.BeforeWrite)
			b.buy(s.item(1))
			held := b.ends().Reason
			s.checkInTime(start)

			a.finish()

			b.buy(s.item(2))
			then := b.ends()
			if !then.Applied() {
				fail(fmt.Errorf("%w: nobody is inside, and it is %s", errLate, then))
			}

			return observed{Harm: verify.NoHarm, Why: held + ", then " + then.String()}
		}), scheme(t, name)})

		if f.Verdict == verify.Unavailable {
			testkit.Require(t, "zookeeper", f.Why)
		}
		if err != nil || f.Why != "contended, then applied" {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}
