package report

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/marketsim/marketsim/bench/result"
)

// records are the lines of a run's CSV, the names of the columns first: every number in full.
func records(res *result.Run) [][]string {
	all := make([][]string, 1+len(res.Rows))
	for _, c := range columns {
		if c.name == "" {
			continue
		}
		all[0] = append(all[0], c.name)
		for i, r := range res.Rows {
			all[i+1] = append(all[i+1], exact(c.value(row{r, res})))
		}
	}
	return all
}

// rowTable is one of the tables of all rows, each line of which is about the rows of a group.
func rowTable(res *result.Run, lines [][]result.Row, which tables) *table {
	several := res.Planned() == 1 && severalTrials(res.Rows)
	here := slices.DeleteFunc(slices.Clone(columns), func(c column) bool {
		return c.in&which == 0 || c.name == trial && !several || c.rare && !slices.ContainsFunc(res.Rows,
			func(r result.Row) bool { return c.value(row{r, res}) != nil })
	})
	slices.SortStableFunc(here, func(a, b column) int { return cmp.Compare(a.order, b.order) })
	t := &table{rows: make([][]cell, len(lines))}
	for _, c := range here {
		t.header = append(t.header, c.head)
	}
	for i, group := range lines {
		r := row{group[0], res}
		if len(group) > 1 {
			r.Row = medianRow(group)
		}
		for _, c := range here {
			t.rows[i] = append(t.rows[i], c.cell(r, group))
		}
	}
	return t
}

// cell is what a table shows of a column for a row, or for those of several rounds and their median.
func (c column) cell(r row, rounds []result.Row) cell {
	switch {
	case len(rounds) > 1:
		return medianCell(c, r, rounds)
	case c.shown != nil:
		return readable(c.shown(r))
	}
	return readable(c.value(r))
}

// exact is a value as a CSV has it.
func exact(value any) string {
	switch v := present(value).(type) {
	case nil:
		return none
	case string:
		return clean(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default: // whole numbers, and whether something is so
		return fmt.Sprint(v)
	}
}

// readable is a value as a table shows it.
func readable(value any) cell {
	switch v := present(value).(type) {
	case cell:
		return v
	case float64:
		return cell{text: number(v)}
	case int64:
		return cell{text: thousands(v)}
	case bool:
		if v {
			return cell{text: "yes"}
		}
		return cell{text: "no"}
	default:
		return cell{text: exact(v)}
	}
}

// present is what a pointer points to, nil for a nil pointer, and any other value itself.
func present(value any) any {
	v := reflect.ValueOf(value)
	switch {
	case v.Kind() != reflect.Pointer:
		return value
	case v.IsNil():
		return nil
	}
	return v.Elem().Interface()
}
