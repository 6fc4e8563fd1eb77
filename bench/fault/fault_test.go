package fault

import (
	"os"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/strategies/catalogue"
)

func TestTry(t *testing.T) {
	lab, err := OpenLab(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lab.Close()
	var subjects []Subject
	for _, n := range strings.Split(os.Getenv("L"), ",") {
		s, err := Of(catalogue.Full(), n)
		if err != nil {
			t.Fatal(err)
		}
		subjects = append(subjects, s)
	}
	var scs []Scenario
	for _, sc := range All() {
		if w := os.Getenv("S"); w == "" || strings.Contains(w, sc.Name) {
			scs = append(scs, sc)
		}
	}
	found, err := lab.Run(t.Context(), scs, subjects, nil)
	for _, f := range found {
		t.Logf("%-18s %-24s %-15s %s", f.Scenario, f.Subject, f.Verdict, f.Why)
	}
	if err != nil {
		t.Error(err)
	}
}
