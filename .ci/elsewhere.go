//go:build ignore

// Checks the types of this module's packages, their tests and all that they import, as
// a compiler for another operating system does. It makes no code, which is what a
// compiler spends most of its time on.
//
//	go run .ci/elsewhere.go darwin windows
package main

import (
	"log"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	for _, system := range os.Args[1:] {
		loaded, err := packages.Load(&packages.Config{
			Mode: packages.LoadAllSyntax, Tests: true, Env: append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
		}, "./...")
		if err != nil || packages.PrintErrors(loaded) > 0 {
			log.Fatalf("it does not compile for %s: %v", system, err)
		}
	}
}
