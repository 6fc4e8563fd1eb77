// Package adapters has the programs from which an author starts one that marketsim judge
// can judge: a lock or a purchase, in each of several languages. The command prints them,
// and docs/judged.md names them as they stand here.
package adapters

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/internal/wording"
)

//go:embed lock purchase
var programs embed.FS

// Languages returns the languages in which there is a program of a kind, "lock"
// or "purchase".
func Languages(kind string) (languages []string) {
	files, _ := fs.Glob(programs, kind+"/*") // which fails for a malformed pattern only
	for _, file := range files {
		languages = append(languages, strings.TrimSuffix(path.Base(file), path.Ext(file)))
	}
	return languages
}

// Source returns the source of the program of a kind in a language, for
// authors to start from.
func Source(kind, language string) (text string, err error) {
	known := Languages(kind)
	if !slices.Contains(known, language) {
		asked := wording.Excerpt(language, wording.ExcerptBytes)
		return "", fmt.Errorf("there is no %s in %q; there is one in %s", kind, asked, strings.Join(known, ", "))
	}

	files, err := fs.Glob(programs, kind+"/"+language+".*")
	if err != nil || len(files) != 1 { // a defect: Languages has the language from there
		return "", fmt.Errorf("%d programs of a %s in %q: %w", len(files), kind, language, err)
	}
	source, err := programs.ReadFile(files[0])
	return string(source), err
}
