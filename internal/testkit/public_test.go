package testkit_test

import (
	"bytes"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const (
	moduleName = "github.com/marketsim/marketsim"

	// Of all public packages together. What other modules need is much less; above this
	// number a reader of go doc meets what is there for marketsim's own sake.
	mostPublicNames = 300
)

// What other modules can import is small, and needs nothing that they cannot import: no
// exported signature, field or method has a type of a package under internal/.
func TestPublicLine(t *testing.T) {
	public, names := exportData(t), 0
	for _, path := range public.paths {
		pkg, err := public.importer.Import(path)
		if err != nil {
			t.Fatalf("read the types of %s: %v", path, err)
		}

		scope := pkg.Scope()
		for _, name := range scope.Names() {
			if !token.IsExported(name) {
				continue
			}
			names++
			for _, found := range hiddenTypes(scope.Lookup(name)) {
				t.Errorf("%s.%s: %s", strings.TrimPrefix(path, moduleName+"/"), name, found)
			}
		}
	}

	t.Logf("%d exported names in %d packages", names, len(public.paths))
	if names > mostPublicNames {
		t.Errorf("%d names are public, at most %d should be", names, mostPublicNames)
	}

	// A check that has seen only a few names has proved nothing.
	if names < 100 {
		t.Errorf("only %d names were found", names)
	}
}

// publicPackages are those of this module that others may import, with what reads them.
type publicPackages struct {
	paths    []string
	importer types.Importer
}

func exportData(t *testing.T) publicPackages {
	t.Helper()
	list := exec.Command("go", "list", "-export", "-deps",
		"-f", "{{.ImportPath}}\t{{.Name}}\t{{.Export}}", "./...")
	list.Dir = "../.."
	var stderr bytes.Buffer
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("list the packages: %v\n%s", err, stderr.String())
	}

	var public publicPackages
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, rest, _ := strings.Cut(strings.TrimSpace(line), "\t")
		name, file, _ := strings.Cut(rest, "\t")
		files[path] = file
		ours := strings.HasPrefix(path, moduleName+"/")
		if ours && name != "main" && !strings.Contains(path, "/internal/") {
			public.paths = append(public.paths, path)
		}
	}
	slices.Sort(public.paths)
	public.importer = importer.ForCompiler(token.NewFileSet(), "gc",
		func(path string) (io.ReadCloser, error) {
			return os.Open(files[path])
		})
	return public
}

// hiddenTypes says where an exported object shows a type that nobody else can name.
func hiddenTypes(object types.Object) (found []string) {
	look := func(where string, t types.Type) {
		if hidden := hiddenIn(t); hidden != "" {
			found = append(found, fmt.Sprintf("%s has %s", where, hidden))
		}
	}
	named, isType := object.Type().(*types.Named)
	if _, declares := object.(*types.TypeName); !declares || !isType {
		look("it", object.Type())
		return found
	}

	switch underlying := named.Underlying().(type) {
	case *types.Struct:
		for field := range underlying.Fields() {
			if field.Exported() {
				look("the field "+field.Name(), field.Type())
			}
		}
	case *types.Interface:
		for method := range underlying.Methods() {
			look("the method "+method.Name(), method.Type())
		}
	default:
		look("it", underlying)
	}
	for method := range named.Methods() {
		if method.Exported() {
			look("the method "+method.Name(), method.Type())
		}
	}
	return found
}

// hiddenIn is the first type in t that is of a package under internal/; empty: none is.
func hiddenIn(t types.Type) string {
	var parts []types.Type
	switch t := t.(type) {
	case *types.Named:
		if pkg := t.Obj().Pkg(); pkg != nil && strings.HasPrefix(pkg.Path(), moduleName+"/internal/") {
			return t.String()
		}

		// Its fields are not followed: in a type that refers to itself that would never end.
		for argument := range t.TypeArgs().Types() {
			parts = append(parts, argument)
		}
	case *types.Alias:
		parts = []types.Type{types.Unalias(t)}
	case *types.Pointer:
		parts = []types.Type{t.Elem()}
	case *types.Slice:
		parts = []types.Type{t.Elem()}
	case *types.Array:
		parts = []types.Type{t.Elem()}
	case *types.Chan:
		parts = []types.Type{t.Elem()}
	case *types.Map:
		parts = []types.Type{t.Key(), t.Elem()}
	case *types.Signature:
		for parameter := range t.Params().Variables() {
			parts = append(parts, parameter.Type())
		}
		for result := range t.Results().Variables() {
			parts = append(parts, result.Type())
		}
	case *types.Struct:
		for field := range t.Fields() {
			parts = append(parts, field.Type())
		}
	}

	for _, part := range parts {
		if hidden := hiddenIn(part); hidden != "" {
			return hidden
		}
	}
	return ""
}

// The check finds what it is for, wherever a type can hide.
func TestHiddenTypes(t *testing.T) {
	hidden := types.NewNamed(
		types.NewTypeName(0, types.NewPackage(moduleName+"/internal/wire", "wire"), "Gate", nil),
		types.NewStruct(nil, nil), nil)
	plain := types.Typ[types.String]

	takes := func(parameter types.Type) types.Type {
		variables := types.NewTuple(types.NewParam(0, nil, "", parameter))
		return types.NewSignatureType(nil, nil, nil, variables, nil, false)
	}

	for _, c := range []struct {
		is   types.Type
		want bool
	}{
		{hidden, true}, {types.NewPointer(hidden), true},
		{types.NewMap(plain, types.NewSlice(hidden)), true},
		{takes(hidden), true}, {takes(takes(hidden)), true},
		{takes(plain), false}, {types.NewSlice(plain), false},
	} {
		if got := hiddenIn(c.is) != ""; got != c.want {
			t.Errorf("%s: hidden is %t, want %t", c.is, got, c.want)
		}
	}
}
