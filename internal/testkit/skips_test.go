package testkit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A helper of this package, or of serverstest, may skip the test that it is given, and a
// skip ends the goroutine that it is called in: with the t of an outer test, the inner one
// panics where something is missing, and nowhere else. So each call is given a parameter of
// the function that it stands in.
func TestSkipsEndTheTestTheyStandIn(t *testing.T) {
	files := token.NewFileSet()
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}

		for _, at := range borrowed(f) {
			t.Errorf("%s: this call may skip the test of another function; give the function a t of its own", files.Position(at))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The check finds what it is for.
func TestBorrowedSkipsAreFound(t *testing.T) {
	const body = `package p
func Test(t *testing.T) {
	testkit.Local(t)
	late := func() { serverstest.Etcd(t, 1); testkit.Started[*T](t, "redis") }
	t.Run("", func(t *testing.T) { late(); serverstest.Etcd(t, 1); testkit.Keys(t) })
}
type bench struct{ t *testing.T }
func (b bench) start() { testkit.Local(b.t) }`
	f, err := parser.ParseFile(token.NewFileSet(), "", body, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if found := borrowed(f); len(found) != 2 {
		t.Errorf("found %d calls with the t of another function, want the two in late", len(found))
	}
}

// maySkip are the functions, by package, that end a test where something is missing.
var maySkip = map[string][]string{
	"testkit":     {"Each", "OnBest", "Best", "Local", "Start", "Started", "Require"},
	"serverstest": {"Masters", "Cluster", "ZooKeeper", "Etcd"},
}

// borrowed finds calls of them whose first argument, a plain name, is no parameter of
// the innermost function around them.
func borrowed(f *ast.File) (found []token.Pos) {
	var look func(n ast.Node, parameters ...*ast.FieldList)
	look = func(n ast.Node, parameters ...*ast.FieldList) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Body != nil {
					look(n.Body, n.Type.Params, n.Recv)
				}
				return false
			case *ast.FuncLit:
				look(n.Body, n.Type.Params)
				return false
			case *ast.CallExpr:
				fun := n.Fun
				if generic, is := fun.(*ast.IndexExpr); is {
					fun = generic.X
				}

				of, _ := fun.(*ast.SelectorExpr)
				if of == nil || len(n.Args) == 0 {
					return true
				}

				in, _ := of.X.(*ast.Ident)
				argument, _ := n.Args[0].(*ast.Ident)
				skips := in != nil && slices.Contains(maySkip[in.Name], of.Sel.Name)
				if skips && argument != nil && !declares(argument.Name, parameters) {
					found = append(found, n.Pos())
				}
			}
			return true
		})
	}

	look(f)
	return found
}

func declares(name string, parameters []*ast.FieldList) bool {
	for _, list := range parameters {
		if list == nil {
			continue
		}
		for _, field := range list.List {
			for _, n := range field.Names {
				if n.Name == name {
					return true
				}
			}
		}
	}
	return false
}
