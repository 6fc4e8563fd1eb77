package report

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/results/reference"
)

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{thousands(0), "0"}, {thousands(999), "999"}, {thousands(1000), "1,000"}, {thousands(-1234567), "-1,234,567"},
		{thousands(-999), "-999"}, {thousands(math.MinInt64), "-9,223,372,036,854,775,808"},
		{number(0), "0"}, {number(0.44), "0.44"}, {number(0.044), "0.044"}, {number(12.34), "12.3"}, {number(9.999), "10.0"},
		{number(1234.5), "1,235"}, {number(99.96), "100"}, {number(0.00001), "<0.001"}, {number(1e300), "1e+300"},
		{number(-2.5), "-2.50"}, {number(math.NaN()), none}, {number(math.Inf(1)), none},
		{ms(12.3, true), "12.3 ms"}, {ms(0, false), none}, {mean(bench.Latency{}), none},
		{over(3, 0), none}, {over(80000, 27000), "2.96"}, {over(0, 5), "0"},
		{seconds(5), "5"}, {seconds(0.5), "0.5"}, {seconds(59.968), "59.97"},
		{count(1, "item"), "1 item"}, {count(2000, "item"), "2,000 items"}, {count(0, "item"), "0 items"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"fine:set-px":                  "fine:set-px",
		" a\nb\tc\x1b[31m\x00 ":        "a?b?c?[31m?",
		"\xff":                         "\ufffd",
		"\u202eabc":                    "?abc", // a text that would run backwards
		strings.Repeat("x", longest+1): strings.Repeat("x", longest) + "...",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"<200": "<200", "a < b": "a < b", "<script>": `\<script>`, "a|b": `a\|b`, "*x* `y` [z](u)": "\\*x\\* \\`y\\` \\[z\\](u)",
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestAudit(t *testing.T) {
	for _, c := range []struct {
		audit bench.Audit
		want  string
	}{
		{bench.Audit{}, "not done"},
		{bench.Audit{OK: true}, "not done"},
		{bench.Audit{Done: true, OK: true}, "ok"},
		{bench.Audit{Done: true, ItemProblems: 3, MoneyProblems: 2}, "3 items, 2 accounts wrong"},
		{bench.Audit{Done: true, MoneyProblems: 1}, "1 account wrong"},
		{bench.Audit{Done: true}, "wrong"},
	} {
		if got := audit(c.audit); got.text != c.want || (got.verdict == good) != (c.want == "ok") {
			t.Errorf("audit(%+v) = %+v, want %q", c.audit, got, c.want)
		}
	}
}

func TestQuotient(t *testing.T) {
	v := func(n float64, below bool) reference.Value { return reference.Value{Number: n, Below: below} }
	for _, c := range []struct {
		a, b reference.Value
		want string
	}{
		{v(80000, false), v(27000, false), "2.96"},
		{v(50000, false), v(200, true), ">250"},
		{v(10, true), v(13000, false), "<0.001"},
		{v(10, true), v(200, true), none}, // says nothing
		{v(0, false), v(0, false), none},
	} {
		if got := quotient(c.a, c.b); got != c.want {
			t.Errorf("%+v over %+v = %s, want %s", c.a, c.b, got, c.want)
		}
	}
}

func TestScaling(t *testing.T) {
	p := func(seconds float64, trials int) bench.Pooled { return bench.Pooled{Seconds: seconds, Trials: trials} }
	const suffix = ", counts scaled to the book's 60 s"
	for _, c := range []struct {
		pools []bench.Pooled
		want  string
	}{
		{nil, ""},
		{[]bench.Pooled{p(60, 1), p(60.01, 1)}, ""},
		{[]bench.Pooled{p(0, 1)}, ""},
		{[]bench.Pooled{p(5, 1), p(5.0004, 1)}, "measured over 5 s a row" + suffix},
		{[]bench.Pooled{p(5, 1), p(1.37, 1)}, "measured over 1.37 to 5 s a row" + suffix},
		{[]bench.Pooled{p(15, 3)}, "measured over 15 s a row in 3 trials" + suffix},
	} {
		if got := scaling(c.pools); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if got := counts(bench.Pooled{Seconds: 5, Listed: 10, Bought: 2, Retries: 4, WaitMS: 7}); got[0].text != "120" ||
		got[1].text != "24" || got[2].text != "48" || got[3].text != "2.00" || got[4].text != "7.00 ms" {
		t.Errorf("counts of 5 s: %v", got)
	}
}

func TestTallyAgrees(t *testing.T) {
	yes, no := true, false
	several := []bench.Claim{{Holds: &yes}, {Holds: &yes}, {Holds: &no}, {}}
	for want, claims := range map[string][]bench.Claim{
		"Of 4 claims of the book: 2 hold, 1 does not, 1 not judged.": several,
		"Of 3 claims of the book: 1 holds, 2 do not, 0 not judged.":  {{Holds: &yes}, {Holds: &no}, {Holds: &no}},
		"Of 0 claims of the book: 0 hold, 0 do not, 0 not judged.":   nil,
	} {
		if got := tally(claims); !strings.HasPrefix(got, want) {
			t.Errorf("the tally is %q, want %q", got, want)
		}
	}
}

// FuzzReports reads whatever it is given and writes it in every format: nothing may panic, no format may let a
// control character through, and what was written must be read again.
func FuzzReports(f *testing.F) {
	for _, res := range []*bench.Result{complete(), reproduced(), partial(), violated(), embedded()} {
		var b bytes.Buffer
		if err := JSON(&b, res); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte(`{"schema":1,"status":"complete","rows":[{"strategy":"\u001b[2J|<b>\n","sellers":-1,"buyers":0,` +
		`"listed":-5,"retries":9,"seconds":-1,"wait_ms":{"mean":1e308},"per_buyer":[],"audit":{"done":true}}],` +
		`"manifest":{"config":{"reproduces":["6-1","x"]}},"claims":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		res, err := bench.ReadResult(bytes.NewReader(data))
		if err != nil {
			return
		}
		bench.Judge(res.Manifest, res.Rows)
		for _, format := range Formats() {
			var b bytes.Buffer
			if err := Write(&b, format, res); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if i := strings.IndexFunc(b.String(), func(r rune) bool { return r < ' ' && r != '\n' }); i >= 0 {
				t.Errorf("%s: control character at %d: %q", format, i, b.String())
			}
			if format == "json" {
				if _, err := bench.ReadResult(&b); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
