package judge

import (
	"embed"
	"fmt"
	"strings"
)

//go:embed adapters
var adapters embed.FS

// Adapters are the languages that there is a program for.
func Adapters() (languages []string) {
	files, _ := adapters.ReadDir("adapters") // which are embedded
	for _, f := range files {
		language, _, _ := strings.Cut(f.Name(), ".")
		languages = append(languages, language)
	}
	return languages
}

// Adapter is the program of a language, to start from.
func Adapter(language string) (text string, err error) {
	files, _ := adapters.ReadDir("adapters")
	for _, f := range files {
		if name, _, _ := strings.Cut(f.Name(), "."); name == language {
			said, err := adapters.ReadFile("adapters/" + f.Name())
			return string(said), err
		}
	}
	return "", fmt.Errorf("there is none in %q; there is one in %s", language, strings.Join(Adapters(), ", "))
}
