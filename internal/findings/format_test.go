package findings_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/internal/testkit"
)

// fieldsOf are the fields of a type as JSON has them, with their types, under a name.
func fieldsOf(t reflect.Type, name string) (all []string) {
	switch t.Kind() {
	case reflect.Pointer:
		return fieldsOf(t.Elem(), name)
	case reflect.Slice:
		return fieldsOf(t.Elem(), name+"[n]")
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous || tag == "-" {
				continue
			}
			all = append(all, fieldsOf(f.Type, strings.TrimPrefix(name+"."+tag, "."))...)
		}
		return all
	}

	kinds := map[reflect.Kind]string{
		reflect.Bool: "boolean", reflect.String: "string", reflect.Float64: "number",
		reflect.Int: "integer", reflect.Int64: "integer",
	}
	return []string{name + " " + kinds[t.Kind()]}
}

// TestJudgedFormat: docs/judged-format.md has each field of what judge stores, with its type
// and a meaning, and no other.
func TestJudgedFormat(t *testing.T) {
	page := string(testkit.Must(os.ReadFile("../../docs/judged-format.md"))(t))
	row := regexp.MustCompile("(?m)^\\| `(\\S+)` \\| (\\w+) \\| (\\S.*) \\|$")
	var documented []string
	for _, cells := range row.FindAllStringSubmatch(page, -1) {
		documented = append(documented, cells[1]+" "+cells[2])
	}

	stored := fieldsOf(reflect.TypeFor[findings.Explorations](), "")
	for _, field := range stored {
		if !slices.Contains(documented, field) {
			t.Errorf("docs/judged-format.md has no row for %q", field)
		}
	}
	for _, field := range documented {
		if !slices.Contains(stored, field) {
			t.Errorf("docs/judged-format.md has %q, which is not stored", field)
		}
	}
}
