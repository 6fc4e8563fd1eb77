package history

import (
	"fmt"
	"io"
	"strings"
)

// Write prints a verdict for people.
func (v Verdict) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n", v.Subject, v.Mix, strings.ToUpper(string(v.Result)))
	for _, p := range v.Parts {
		fmt.Fprintf(&b, "  %-18s %-13s %s\n", p.Name, p.Result, p.Checked)
		for _, s := range p.Stories {
			fmt.Fprintf(&b, "    %s\n", s.Text)
		}
		if more := p.Wrong - len(p.Stories); more > 0 {
			fmt.Fprintf(&b, "    and %d more\n", more)
		}
		for _, why := range p.Why {
			fmt.Fprintf(&b, "    not decided: %s\n", why)
		}
	}
	for _, not := range v.NotChecked {
		fmt.Fprintf(&b, "  not checked: %s\n", not)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
