package explore

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strings"
)

// belongs is the label of the goroutines of a client, those that they start included.
const belongs = "marketsim-client"

// label is a client of this schedule, and of no other.
func (w *world) label(client string) string { return fmt.Sprintf("%s of %p", client, w) }

// left names a client of which a goroutine still runs, with the goroutine's stack. Empty: there is none.
func (w *world) left() string {
	var profile bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1) // to memory
	for group := range strings.SplitSeq(profile.String(), "\n\n") {
		for _, c := range w.trial.Clients {
			if !strings.Contains(group, w.label(c.Name)) {
				continue
			}
			var stack strings.Builder
			for line := range strings.Lines(group) {
				frame, is := strings.CutPrefix(line, "#\t0x")
				if _, where, cut := strings.Cut(frame, "\t"); is && cut {
					stack.WriteString("\t" + where)
				}
			}
			return c.Name + ", in\n" + stack.String()
		}
	}
	return ""
}
