package view

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/csv"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"

	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/internal/runs"
	"github.com/marketsim/marketsim/internal/stored"
)

// CSV writes the rows of runs with every number in full, and nothing for what a row does
// not have. Behind the [runs.Metrics] stands what came later, so that it moves no column. The
// names of columns and the values of a row are in the same order.
func CSV(w io.Writer, named ...NamedRun) error {
	names := []string{
		"run", "run_status", "backend", "server", "server_version", "seed",
		"strategy", "sellers", "buyers", "trial", "status",
		"wallets", "funds", "hot", "stock", "empty", "hold_ms", "rtt_ms", "rate",
		"audit_done", "audit_ok", "audit_items", "audit_funds", "audit_item_problems", "audit_money_problems",
		"audit_settled_applied", "audit_settled_not_applied",
	}
	metrics := runs.Metrics()
	for _, m := range metrics {
		names = append(names, m.Name)
	}
	names = append(names, "arrivals", "on_server", "markets") // came later, and move no column

	rows := [][]string{names}
	for _, n := range named {
		m := n.Run.Manifest
		for i := range n.Run.Rows {
			r := &n.Run.Rows[i]
			server, version := m.ServerOf(r.Point)
			row := mapped([]any{
				n.Name, n.Run.Status, m.Backend, server, version, m.Seed,
				r.Strategy, r.Mix.Sellers, r.Mix.Buyers, r.Trial, r.Status,
				r.Wallets, r.Funds, r.Hot, r.Stock, r.Empty, r.HoldMS, r.RTTMS, r.Rate,
				r.Audit.Done, r.Audit.OK, r.Audit.Items, r.Audit.Funds, r.Audit.ItemProblems, r.Audit.MoneyProblems,
				r.Audit.Applied, r.Audit.NotApplied,
			}, exact)
			for _, m := range metrics {
				row = append(row, exact(m.Of(r)))
			}
			row = append(row, arrivals(r.Load), printable(r.Server), exact(max(1, r.Markets)))
			rows = append(rows, row)
		}
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// arrivals names how orders at a rate arrive; empty: the loop is closed.
func arrivals(l result.Load) string {
	if l.Rate == 0 {
		return ""
	}
	return cmp.Or(l.Arrivals, "poisson")
}

// exact is a value in full; what is not a number is empty.
func exact(value any) string {
	v, is := value.(float64)
	switch {
	case !is:
		return printable(fmt.Sprint(value))
	case math.IsNaN(v):
		return ""
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// Line is a row in one line, for whoever watches a run.
func Line(r result.Row) string {
	mean, p99 := runs.MetricByName("wait_ms_mean"), runs.MetricByName("wait_ms_p99")
	text := fmt.Sprintf("%s, trial %d: %s purchases/s, %s %s, %s %s, ", inWords(r.Name()), r.Trial,
		Number(r.PerSecond(), runs.PerSecond), mean.Heading, Number(mean.Of(&r), mean.Unit),
		p99.Heading, Number(p99.Of(&r), p99.Unit))
	if r.Audit.Done {
		text += "audit "
	}
	text += audited([]result.Row{r}).Text
	if r.Status != stored.Complete {
		text += ", " + ended(r.Status)
	}
	return printable(text)
}

//go:embed page.gohtml filter.gohtml page.css figure.gosvg
var files embed.FS

var page = template.Must(template.New("page.gohtml").Funcs(template.FuncMap{
	"filters": filters, "inline": inline, "inc": func(i int) int { return i + 1 },
	"id": func(part, block int) string { return fmt.Sprintf("r%d-%d", part, block) },
}).ParseFS(files, "page.gohtml", "filter.gohtml", "page.css"))

// HTML draws documents as one page with their figures. It loads nothing and runs no
// script: its CSP forbids both.
func HTML(w io.Writer, docs ...*Doc) error {
	var b bytes.Buffer
	err := page.Execute(&b, mapped(docs, func(d *Doc) *Doc { return d.each(shown) }))
	if err != nil {
		return fmt.Errorf("draw a page: %w", err)
	}
	_, err = w.Write(b.Bytes())
	return err
}

// inline is a figure as HTML, which the page does not escape again, because SVG
// has escaped its texts.
func inline(f *Figure) (template.HTML, error) {
	var b bytes.Buffer
	err := SVG(&b, *f)
	return template.HTML(b.String()), err
}
