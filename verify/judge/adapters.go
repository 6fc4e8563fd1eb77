package judge

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/internal/excerpt"
)

//go:embed adapters
var adapters embed.FS

// Adapters returns the languages in which there is a program of a kind, "lock"
// or "purchase".
func Adapters(kind string) (languages []string) {
	files, _ := fs.Glob(adapters, "adapters/"+kind+"/*") // which fails for a malformed pattern only
	for _, file := range files {
		languages = append(languages, strings.TrimSuffix(path.Base(file), path.Ext(file)))
	}
	return languages
}

// Adapter returns the source of the program of a kind in a language, for
// authors to start from.
func Adapter(kind, language string) (text string, err error) {
	known := Adapters(kind)
	if !slices.Contains(known, language) {
		return "", fmt.Errorf("there is no %s in %q; there is one in %s", kind, excerpt.Of(language, excerpt.Bytes),
			strings.Join(known, ", "))
	}

	files, err := fs.Glob(adapters, "adapters/"+kind+"/"+language+".*")
	if err != nil || len(files) != 1 { // a defect: Adapters has the language from there
		return "", fmt.Errorf("%d programs of a %s in %q: %w", len(files), kind, language, err)
	}
	said, err := adapters.ReadFile(files[0])
	return string(said), err
}
