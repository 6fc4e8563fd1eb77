package param_test

import (
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/strategies/param"
)

var poll = param.Duration("poll", time.Millisecond, 10*time.Microsecond, "wait between two attempts")

func TestDurationHasANormalForm(t *testing.T) {
	for value, want := range map[string]string{
		"1ms": "1ms", "1000us": "1ms", "0.5s": "500ms", "90m": "1h30m0s", "10us": "10µs", "2h": "2h0m0s",
	} {
		got, err := poll.Normalize(value)
		if err != nil || got != want {
			t.Errorf("Normalize(%q) = %q, %v; want %q", value, got, err, want)
		}

		if again, err := poll.Normalize(got); err != nil || again != got {
			t.Errorf("the normal form %q normalizes to %q, %v", got, again, err)
		}
	}

	if poll.Default != "1ms" {
		t.Errorf("default %q, want 1ms", poll.Default)
	}
}

func TestDurationErrorsSayWhatIsAllowed(t *testing.T) {
	for value, says := range map[string]string{
		"":     `"" is not a duration such as 500ms or 10s`,
		"5":    `"5" is not a duration such as 500ms or 10s`,
		"9us":  "9µs is not from 10µs to 24h0m0s",
		"-1ms": "-1ms is not from 10µs to 24h0m0s",
		"597h": "597h0m0s is not from 10µs to 24h0m0s",
	} {
		if _, err := poll.Normalize(value); err == nil || err.Error() != says {
			t.Errorf("Normalize(%q): %v, want %s", value, err, says)
		}
	}
}

func TestValuesFallBackToTheDefault(t *testing.T) {
	if d := (param.Values{"poll": "3ms"}).Duration(poll); d != 3*time.Millisecond {
		t.Errorf("given: %s", d)
	}
	for _, v := range []param.Values{nil, {}, {"timeout": "1s"}} {
		if d := v.Duration(poll); d != time.Millisecond {
			t.Errorf("not given, in %v: %s", v, d)
		}
	}
}

func TestUncheckedValuePanics(t *testing.T) {
	defer func() {
		if message, _ := recover().(string); !strings.Contains(message, "param poll is not a duration") {
			t.Errorf("panic: %q", message)
		}
	}()
	param.Values{"poll": "soon"}.Duration(poll)
}
