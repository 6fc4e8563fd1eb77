package results

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/bench/chart"
)

// pictures are what pages show of stored runs: of which folder, and which figure of it.
var pictures = map[string]struct{ folder, figure string }{
	"../docs/pictures/strategies.svg": {"strategies-2026-11-22-redis-7.0.15", "throughput"},
	"../docs/pictures/waiting.svg":    {"waiting-2026-11-22-redis-7.0.15/six", "throughput"},
	"../docs/pictures/clients.svg":    {"sweeps-2026-11-22-redis-7.0.15/clients", "sweep"},
}

// TestPicturesShowWhatIsStored draws each picture again. With -update it writes them.
func TestPicturesShowWhatIsStored(t *testing.T) {
	var all strings.Builder
	for _, page := range glob(t, pages...) {
		all.WriteString(text(t, page))
	}
	for path, of := range pictures {
		figures := chart.Of(readRun(t, glob(t, of.folder+"/*.json")[0]))
		i := slices.IndexFunc(figures, func(f chart.Figure) bool { return f.Name == of.figure })
		if i < 0 {
			t.Fatalf("results/%s has no figure %s", of.folder, of.figure)
		}
		var drawn bytes.Buffer
		if err := figures[i].SVG(&drawn); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(path, drawn.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if text(t, path) != drawn.String() {
			t.Errorf("%s is not what results/%s shows; 'go test ./results -update' draws it", path, of.folder)
		}
		if !strings.Contains(all.String(), strings.TrimPrefix(path, "../docs/")) {
			t.Errorf("no page shows %s", path)
		}
	}
}
