//go:build ignore

// Checks the types of this module's packages, their tests and all that they import, as a compiler for another operating
// system does. It makes no code, which is what a compiler spends most of its time on.
//
//	go run .ci/elsewhere.go darwin windows
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	code := 0
	for _, system := range os.Args[1:] {
		loaded, err := packages.Load(&packages.Config{
			Mode: packages.LoadAllSyntax, Tests: true, Env: append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
		}, "./...")
		if err != nil {
			fmt.Fprintf(os.Stderr, "load the packages for %s: %v\n", system, err)
			os.Exit(1)
		}
		if n := packages.PrintErrors(loaded); n > 0 {
			fmt.Fprintf(os.Stderr, "%d errors for %s\n", n, system)
			code = 1
		}
	}
	os.Exit(code)
}
