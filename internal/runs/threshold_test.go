package runs_test

import (
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/runs"
)

// TestParseThreshold: a limit is read with the unit of its metric, or as a factor of the
// first strategy's value. An error says what is wrong, or what to type.
func TestParseThreshold(t *testing.T) {
	for text, want := range map[string]runs.Threshold{
		"p99<=5ms":                     {Metric: "wait_ms_p99", Value: 5},
		" wait_ms_p99 <= 0.5s ":        {Metric: "wait_ms_p99", Value: 500},
		"avg-wait>=250us":              {Metric: "wait_ms_mean", AtLeast: true, Value: 0.25},
		"server-us<=20us":              {Metric: "server_us", Value: 20},
		"purchases/s>=2.5k":            {Metric: "purchases_per_second", AtLeast: true, Value: 2500},
		"purchases/s>=2500/s":          {Metric: "purchases_per_second", AtLeast: true, Value: 2500},
		"purchases/s>=0.95*first":      {Metric: "purchases_per_second", AtLeast: true, Value: 0.95, OfFirst: true},
		"p99 <= 2 * first":             {Metric: "wait_ms_p99", Value: 2, OfFirst: true},
		"p99<=first":                   {Metric: "wait_ms_p99", Value: 1, OfFirst: true},
		"late<=1%":                     {Metric: "late_share", Value: 1},
		"late<=2*first":                {Metric: "late_share", Value: 2, OfFirst: true},
		"retries/purchase<=0":          {Metric: "retries_per_purchase"},
		"bytes/purchase<=900B":         {Metric: "bytes_per_purchase", Value: 900},
		"round-trips/purchase<=4.0000": {Metric: "round_trips_per_purchase", Value: 4},
	} {
		got, err := runs.ParseThreshold(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, want)
		}
	}

	share, _ := runs.ParseThreshold("late<=1%")
	if share.Limit() != 0.01 || share.String() != "late<=1%" {
		t.Errorf("%v of %s", share.Limit(), share)
	}

	const shape = "type 'p99<=5ms' or 'purchases/s>=0.95*first'"
	for text, want := range map[string]string{
		"":                            shape,
		"p99":                         shape, // what a shell leaves of p99<=5ms
		"p99<5ms":                     shape,
		"p99==5ms":                    shape,
		"1ms<=p99<=5ms":               shape,
		"p99<=5":                      `"5": p99 of it is a time with its unit: type 'p99<=5ms'`,
		"server-us>=20":               "type 'server-us>=20us'",
		"late<=0.01":                  `"0.01": late of it is a percentage: type 'late<=1%'`,
		"purchases/s>=fast":           "type 'purchases/s>=2.5k'",
		"retries/purchase<=1ms":       "type 'retries/purchase<=3'",
		"purchases/s>=95%*first":      `"95%" is no factor: type 'purchases/s>=0.95*first'`,
		"purchases/s>=0*first":        "out of range",
		"purchases/s>=9999999999999":  "out of range",
		"purchases/s>=0.95*second":    "type 'purchases/s>=2.5k'",
		"p98<=5ms":                    `unknown metric "p98"; known: purchases/s, avg-wait, `,
		"purchase/s>=1":               `did you mean "purchases/s"?`,
		"purchases/s>=-1":             "type 'purchases/s>=2.5k'",
		"purchases/s>=NaN":            "type 'purchases/s>=2.5k'",
		"purchases/s>=1e3":            "type 'purchases/s>=2.5k'",
		"p99<=-5ms":                   "type 'p99<=5ms'",
		"p99<=2*first; p50<=1*first;": shape,
	} {
		if got, err := runs.ParseThreshold(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v; want %q", text, got, err, want)
		}
	}
}

// FuzzParseThreshold: what is accepted is the same again when it is written out.
func FuzzParseThreshold(f *testing.F) {
	for _, text := range []string{
		"p99<=5ms", "purchases/s>=0.95*first", "late<=1%", "server-us<=20.5us", "p50>=1h2m3.000000004s", "p99<=first",
		"bytes/purchase<=1.5M", "bytes/purchase<=1.025M",
		"retries/purchase<=0", "p99", "<=", "p99<=5ms*first", "p99<=1*1*first",
	} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		got, err := runs.ParseThreshold(text)
		if err != nil {
			return
		}

		again, err := runs.ParseThreshold(got.String())
		if err != nil || again != got || again.String() != got.String() {
			t.Fatalf("%q is %+v, and written out %q: %+v, %v", text, got, got, again, err)
		}

		if limit := got.Limit(); !(limit >= 0 && limit <= 1e12) {
			t.Fatalf("%q has the limit %v", text, limit)
		}
	})
}
