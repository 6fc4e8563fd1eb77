//go:build ignore

// Prints what people read in Go files: each line of a comment and of a string, behind
// the name of its file and its number. Left out is what stands as it was printed: what
// an example prints, and the words of scenarios and findings in stored results.
//
//	go run .ci/prose.go
package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	stored, err := os.ReadFile("results/faults/faults.json")
	if err != nil {
		log.Fatal(err)
	}

	err = filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" {
			return err
		}
		source, err := os.ReadFile(path)
		prose(path, source, string(stored))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

func prose(path string, source []byte, stored string) {
	file := token.NewFileSet().AddFile(path, -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)

	output := 0 // the line on which the output of an example may go on
	for {
		pos, tok, text := s.Scan()
		line := file.Line(pos)
		switch tok {
		case token.EOF:
			return
		case token.COMMENT:
			text = strings.TrimLeft(text, "/ ")
			if strings.HasPrefix(text, "Output:") || strings.HasPrefix(text, "Unordered output:") || line == output {
				output = line + 1
				continue
			}
		case token.STRING:
			text = text[1 : len(text)-1]
			if strings.Contains(stored, text) {
				continue
			}
		default:
			continue
		}

		for i, one := range strings.Split(text, "\n") {
			fmt.Printf("%s:%d: %s\n", path, line+i, strings.TrimSpace(one))
		}
	}
}
