package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestServeRefuses: what a child cannot do it says, and ends.
func TestServeRefuses(t *testing.T) {
	errNobody := errors.New("nobody of that name")
	for _, c := range []struct{ name, in, says, tells string }{
		{"no casting", "", "read the casting", ""},
		{"a casting that is none", "hello", "read the casting", ""},
		{"an unknown subject", `{"Subject":"x"}`, errNobody.Error(), `"Error":"` + errNobody.Error() + `"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			err := serve(strings.NewReader(c.in), &out, func(string) (Purchasing, error) { return nil, errNobody })
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(out.String(), c.tells) {
				t.Errorf("it says %v and tells %q, want %q and %q", err, out.String(), c.says, c.tells)
			}
		})
	}
}

func TestUnknownCommand(t *testing.T) {
	var out bytes.Buffer
	c := client{}
	c.out = json.NewEncoder(&out)
	c.work(command{Do: "juggle"})
	if !strings.Contains(out.String(), `unknown command \"juggle\"`) {
		t.Errorf("it tells %q", out.String())
	}
}

// TestServeChildElsewhere returns in a process that is no child.
func TestServeChildElsewhere(t *testing.T) {
	ServeChild(func(string) (Purchasing, error) {
		t.Error("a subject was asked for")
		return nil, nil
	})
}
