package report

import (
	"bytes"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/results/reference"
)

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{thousands(0), "0"}, {thousands(999), "999"}, {thousands(1000), "1,000"}, {thousands(-1234567), "-1,234,567"},
		{thousands(-999), "-999"}, {thousands(math.MinInt64), "-9,223,372,036,854,775,808"},
		{number(0), "0"}, {number(0.44), "0.44"}, {number(0.044), "0.044"}, {number(12.34), "12.3"}, {number(9.999), "10.0"},
		{number(1234.5), "1,235"}, {number(99.96), "100"}, {number(0.00001), "<0.001"}, {number(1e300), "1e+300"},
		{number(-2.5), "-2.50"}, {number(math.NaN()), none}, {number(math.Inf(1)), none},
		{ms(12.3, true), "12.3 ms"}, {ms(0, false), none}, {mean(result.Latency{}), none},
		{perPurchase(3, 0), none}, {perPurchase(80000, 27000), "2.96"}, {perPurchase(0, 5), "0"}, {perPurchase(0, 0), none},
		{seconds(5), "5"}, {seconds(0.5), "0.5"}, {seconds(59.968), "59.97"},
		{count(1, "item"), "1 item"}, {count(2000, "item"), "2,000 items"}, {count(0, "item"), "0 items"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

// perPurchase is what the tables show of retries and purchases.
func perPurchase(retries, bought int64) string {
	return readable(retriesPerPurchase(row{Row: result.Row{Retries: retries, Bought: bought}})).text
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
		"<200": "<200", "a < b": "a < b", "<script>": `\<script>`,
		"a|b": `a\|b`, "*x* `y` [z](u)": "\\*x\\* \\`y\\` \\[z\\](u)",
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestAudit(t *testing.T) {
	for _, c := range []struct {
		audit result.Audit
		want  string
	}{
		{result.Audit{}, "not done"},
		{result.Audit{OK: true}, "not done"},
		{result.Audit{Done: true, OK: true}, "ok"},
		{result.Audit{Done: true, ItemProblems: 3, MoneyProblems: 2}, "3 items, 2 accounts wrong"},
		{result.Audit{Done: true, MoneyProblems: 1}, "1 account wrong"},
		{result.Audit{Done: true}, "wrong"},
	} {
		if got := audit(c.audit); got.text != c.want || (got.tone == good) != (c.want == "ok") {
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
	ran := func(seconds ...float64) (rows []result.Row) {
		for _, s := range seconds {
			rows = append(rows, result.Row{Seconds: s})
		}
		return rows
	}
	const suffix = ", counts scaled to the book's 60 s"
	for _, c := range []struct {
		rows []result.Row
		want string
	}{
		{nil, ""},
		{ran(60, 60.01), ""},
		{ran(0), ""},
		{ran(5, 5.0004), "measured over 5 s a row" + suffix},
		{ran(5, 1.37), "measured over 1.37 to 5 s a row" + suffix},
	} {
		if got := scaling(c.rows); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	got, margins := counts([]result.Row{{Seconds: 5, Listed: 10, Bought: 2, Retries: 4, WaitMS: result.Latency{Mean: 7}}}, &result.Run{})
	if margins != nil || got[0].text != "120" || got[1].text != "24" || got[2].text != "48" || got[3].text != "2.00" ||
		got[4].text != "7.00 ms" {
		t.Errorf("counts of 5 s: %v, %v", got, margins)
	}
}

func TestTallyAgrees(t *testing.T) {
	yes, no := true, false
	several := []result.Claim{{Holds: &yes}, {Holds: &yes}, {Holds: &no}, {}}
	for want, claims := range map[string][]result.Claim{
		"Of 4 claims of the book: 2 hold, 1 does not, 1 not judged.": several,
		"Of 3 claims of the book: 1 holds, 2 do not, 0 not judged.":  {{Holds: &yes}, {Holds: &no}, {Holds: &no}},
		"Of 0 claims of the book: 0 hold, 0 do not, 0 not judged.":   nil,
	} {
		if got := tally(claims); !strings.HasPrefix(got, want) {
			t.Errorf("the tally is %q, want %q", got, want)
		}
	}
}

// hostile is a text that a file may hold: an escape code in both forms, a deletion, a direction mark, and markup.
const hostile = "\x1b[2J\u009b31m\x7f\u202e|<b>\n`*[x](y)"

// everyText makes every text in a stored result hostile.
func everyText(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			everyText(v.Elem())
		}
	case reflect.Struct:
		for field, value := range v.Fields() {
			if field.IsExported() {
				everyText(value)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			everyText(v.Index(i))
		}
	case reflect.String:
		if v.Type() == reflect.TypeFor[string]() { // a status or a verdict is one of a list
			v.SetString(hostile)
		}
	}
}

// TestHostileTexts: nothing that a file holds reaches a terminal as a control character, in any format.
func TestHostileTexts(t *testing.T) {
	var docs []*Document
	for _, res := range []*result.Run{complete(), reproduced(), partial(), violated(), embedded()} {
		everyText(reflect.ValueOf(res))
		docs = append(docs, Run(res))
	}
	found := everyVerdict()
	everyText(reflect.ValueOf(found))
	for _, d := range append(docs, Faults(found)) {
		for _, format := range Formats() {
			var b bytes.Buffer
			if err := d.Write(&b, format, Options{}); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if i := strings.IndexFunc(b.String(), func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }); i >= 0 {
				t.Errorf("%s: control character at %d: %q", format, i, b.String()[i:min(i+20, b.Len())])
			}
		}
	}
}

// FuzzTexts: no text and no number of a file becomes a control character or an open tag, and a number is never empty.
func FuzzTexts(f *testing.F) {
	f.Add(hostile, 0.0, int64(0))
	f.Add("fine:set-px", 1e308, int64(-1))
	f.Add(strings.Repeat("a", longest+1), -0.0004, int64(1<<62))
	f.Fuzz(func(t *testing.T, text string, v float64, n int64) {
		shown := []string{number(v), whole(v), seconds(v), ms(v, true), thousands(n), count(n, "row"), exact(v)}
		for i, s := range append(shown, clean(text), exact(text), escape(clean(text))) {
			if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) || i < len(shown) && s == "" {
				t.Errorf("%q, %v and %d: text %d is %q", text, v, n, i, s)
			}
		}
		if escape(clean(text)) == clean(text) && strings.Contains(clean(text), "<b") {
			t.Errorf("%q opens a tag", text)
		}
	})
}
