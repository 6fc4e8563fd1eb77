package report

import (
	"reflect"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench/result"
)

// nested makes a column of the CSV for each number, text and truth below the named field of a row, with the names that
// run.json has, joined by an underscore. Where a run did not record the field, the columns are "-". Lists and maps
// have no column. shown holds those that tables show, where a row has them: each with its name below the field, and
// its head.
func nested(field string, shown ...column) []column {
	f, ok := reflect.TypeFor[result.Row]().FieldByName(field)
	if !ok {
		panic("report: a row has no field " + field) // a mistake in this package
	}
	all := leaves(f.Type, jsonName(f), func(r row) reflect.Value { return reflect.ValueOf(r.Row).FieldByName(field) })
	for _, s := range shown {
		i := slices.IndexFunc(all, func(c column) bool { return c.name == jsonName(f)+"_"+s.name })
		if i < 0 {
			panic("report: " + field + " has no " + s.name)
		}
		c := &all[i]
		c.in, c.head, c.rare = s.in, s.head, true
		if s.draw != nil {
			value := c.value
			c.shown = func(r row) any {
				if v, ok := float(value(r)); ok {
					return s.draw(v)
				}
				return nil
			}
		}
	}
	return all
}

// leaves are the columns of what of returns, which has the type t.
func leaves(t reflect.Type, name string, of func(row) reflect.Value) []column {
	switch t.Kind() {
	case reflect.Pointer:
		return leaves(t.Elem(), name, func(r row) reflect.Value {
			if v := of(r); v.IsValid() {
				return v.Elem() // invalid for a nil pointer
			}
			return reflect.Value{}
		})
	case reflect.Struct:
		var all []column
		for i := range t.NumField() {
			mayLack := strings.HasSuffix(t.Field(i).Tag.Get("json"), ",omitzero")
			all = append(all, leaves(t.Field(i).Type, name+"_"+jsonName(t.Field(i)), func(r row) reflect.Value {
				if v := of(r); v.IsValid() && !(mayLack && v.Field(i).IsZero()) {
					return v.Field(i)
				}
				return reflect.Value{}
			})...)
		}
		return all
	case reflect.Slice, reflect.Map:
		return nil
	}
	return []column{{name: name, value: func(r row) any {
		if v := of(r); v.IsValid() {
			return v.Interface()
		}
		return nil
	}}}
}

// jsonName is the name of a field in run.json.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
