package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/internal/process"
)

// formatByExtension has the formats of the files that 'report -o' writes.
var formatByExtension = map[string]string{
	".txt":   asText,
	".md":    asMarkdown,
	".csv":   asCSV,
	".json":  asJSON,
	".jsonl": asJSONL,
	".html":  asHTML,
	".svg":   asSVG,
}

// formatOf is the format that the ending of the file's name asks for. It is empty where
// the name has none, as that of a device. An ending of another format is a usageError
// that says how to come to such a file.
func (f reportFlags) formatOf(paths []string) (format string, err error) {
	ending := strings.ToLower(filepath.Ext(f.file))
	known, found := formatByExtension[ending]
	switch {
	case found:
		return known, nil
	case ending == "" || ending == ".":
		return "", nil
	case ending == ".png" || ending == ".pdf":
		return "", usagef("-o: marketsim writes no %s: write an .svg, and make one of it: %s", ending,
			f.converted(paths))
	}
	return "", usagef("-o: no format ends in %s: name a file that ends in %s, or say which with --format", ending,
		strings.Join(slices.Sorted(maps.Keys(formatByExtension)), ", "))
}

// converted is the command that makes a .png or .pdf of a figure.
func (f reportFlags) converted(paths []string) string {
	ending := filepath.Ext(f.file)
	svg := strings.TrimSuffix(f.file, ending) + ".svg"
	draw := []string{"marketsim", "report"}
	for _, path := range paths {
		draw = append(draw, process.ShellLine(path))
	}
	if f.figure != "" {
		draw = append(draw, "--figure", process.ShellLine(f.figure))
	}
	draw = append(draw, "-o", process.ShellLine(svg))

	options := "--background-color white" // of a .png, which is transparent otherwise
	if strings.EqualFold(ending, ".pdf") {
		options = "--format pdf"
	}
	return fmt.Sprintf("%s && rsvg-convert %s %s -o %s (rsvg-convert is in Debian's librsvg2-bin)",
		strings.Join(draw, " "), options, process.ShellLine(svg), process.ShellLine(f.file))
}
