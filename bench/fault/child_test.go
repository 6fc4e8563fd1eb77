package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/market/step"
)

// TestServeRefuses: a child reports what it cannot do, and ends.
func TestServeRefuses(t *testing.T) {
	errNobody := errors.New("nobody of that name")
	for _, c := range []struct{ name, in, says, reports string }{
		{"no configuration", "", "read the client's configuration", ""},
		{"a configuration that is none", "hello", "read the client's configuration", ""},
		{"an unknown scheme", `{"Scheme":"x"}`, errNobody.Error(), `"Error":"` + errNobody.Error() + `"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			err := serve(strings.NewReader(c.in), &out, func(string) (Purchasing, error) { return nil, errNobody })
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(out.String(), c.reports) {
				t.Errorf("it says %v and reports %q, want %q and %q", err, out.String(), c.says, c.reports)
			}
		})
	}
}

func TestUnknownCommand(t *testing.T) {
	var out bytes.Buffer
	c := served{}
	c.out = json.NewEncoder(&out)
	c.work(command{Do: "juggle"})
	if !strings.Contains(out.String(), `unknown command \"juggle\"`) {
		t.Errorf("it reports %q", out.String())
	}
}

// TestServeChildElsewhere returns in a process that is no child.
func TestServeChildElsewhere(t *testing.T) {
	ServeChild(func(string) (Purchasing, error) {
		t.Error("a scheme was asked for")
		return nil, nil
	})
}

// TestStepsBeforeTheFirstOperation: a lock may call steps while it is opened; nothing holds it there.
func TestStepsBeforeTheFirstOperation(t *testing.T) {
	var c served
	c.observe(t.Context(), step.Acquired)
	c.free()
}
