package view

import (
	"fmt"
	"html/template"
	"strings"
)

// A Filter lets whoever reads a table on a page choose which of its rows are shown. The
// page runs no script: CSS hides the others.
type Filter struct {
	Label  string
	Values []string // of each row
}

// mostChoices is how many values a filter may have: nobody reads more.
const mostChoices = 500

// A filterForm is what a page needs for the filters of one table.
type filterForm struct {
	Table string // the id of its block
	Lists []filterList
	Rows  []string     // the classes of each row
	Rules template.CSS // that hide rows
}

// A filterList is the values of a filter, each once, to choose from.
type filterList struct {
	Label  string
	Values []string
}

// filters is what a page needs for the filters of the table of a block; nil: it has none.
// Names that come from results are texts on the page: rules and classes hold numbers.
func filters(t *Table, id string) *filterForm {
	f := &filterForm{Table: id, Rows: make([]string, len(t.Rows))}
	var rules strings.Builder

	for _, filter := range t.Filters {
		numbers := map[string]int{} // of values
		list := filterList{Label: filter.Label}
		for _, value := range filter.Values {
			if _, known := numbers[value]; !known {
				numbers[value] = len(list.Values)
				list.Values = append(list.Values, value)
			}
		}
		if len(list.Values) < 2 || len(list.Values) > mostChoices {
			continue
		}

		// filter.gohtml counts the same: its list n has the class f<n>, and the option of value
		// i the value <i>. A row of that value has the class f<n>-<i>. page.gohtml gives the
		// element around the lists and the table the id <id>-rows.
		n := len(f.Lists)
		f.Lists = append(f.Lists, list)
		for i, value := range filter.Values {
			f.Rows[i] += fmt.Sprintf(" f%d-%d", n, numbers[value])
		}
		for i := range list.Values {
			fmt.Fprintf(&rules, "#%s-rows:has(.f%d [value=\"%d\"]:checked) tbody tr:not(.f%d-%d) { display: none; }\n",
				id, n, i, n, i)
		}
	}
	if len(f.Lists) == 0 {
		return nil
	}
	f.Rules = template.CSS("@media screen {\n" + rules.String() + "}")
	return f
}
