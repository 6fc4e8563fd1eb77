package history

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// maxDescribed bounds how many operations a story describes: the last ones.
const maxDescribed = 12

// text describes the operations of a finding, by the time of return, and what is wrong with them.
func (f *finding) text(wrong string) string {
	steps := byReturn(f.steps)
	// What was under way is described only in a short story.
	steps = slices.DeleteFunc(steps, func(s step) bool { return s.ret == never && len(f.steps) > maxDescribed })
	var told []string
	if len(steps) > maxDescribed {
		told = append(told, fmt.Sprintf("after %d other operations", len(steps)-maxDescribed))
		steps = steps[len(steps)-maxDescribed:]
	}
	for i := range steps {
		told = append(told, steps[i].words())
	}
	return strings.Join(told, ", ") + ": " + wrong
}

// last is the action that completed last: without it there was an order.
func (f *finding) last() (last action) {
	for _, s := range byReturn(f.steps) {
		if s.ret != never {
			last = s.act
		}
	}
	return last
}

// itemStory describes what happened to an item.
func (f *finding) itemStory() string {
	text := f.text(f.itemFault())
	if f.from != state(location{}) {
		text = fmt.Sprintf("lies %s, ", f.from) + text
	}
	return text
}

// itemFault names what is wrong with the operations on an item.
func (f *finding) itemFault() string {
	switch last := f.last().(type) {
	case ending:
		if len(last) == 0 {
			return "lost"
		}
		if len(last) > 1 {
			return "in several places"
		}
		return "nothing brought it there"
	case look:
		return "refused, though there was no such moment"
	case move:
		return f.moveFault(last)
	}
	return "there is no such order"
}

func (f *finding) moveFault(last move) string {
	sales, other, offered := 0, false, false
	for _, s := range f.steps {
		m, ok := s.act.(move)
		if !ok || s.ret == never {
			continue
		}
		if m.from.listed && m.from == last.from {
			sales++
		}
		offered = offered || m.to == last.from
		other = other || m.to.listed && m.to.user == last.from.user
	}
	switch {
	case last.from == location{}:
		return "minted twice"
	case !last.from.listed:
		return "listed by one who did not have it"
	case sales > 1:
		return "sold twice"
	case !offered && other:
		return "sold at a price at which it was not listed"
	case !offered && f.from != state(last.from):
		return "sold without being listed"
	}
	return "there is no such order"
}

// drawTimeout bounds the search for how far an order of a story's operations comes.
const drawTimeout = 10 * time.Second

// Draw writes an HTML page that shows the operations of the story and how far an order of them comes, as far as that is
// known within some seconds. It reports whether there is anything to draw.
func (s Story) Draw(w io.Writer) (bool, error) { return s.draw(w, drawTimeout) }

func (s Story) draw(w io.Writer, timeout time.Duration) (bool, error) {
	if s.finding == nil {
		return false, nil
	}
	c := &checker{ctx: context.Background()}
	model := c.model(s.finding.from)
	_, info := porcupine.CheckOperationsVerbose(model, operations(s.finding.steps), timeout)
	if err := porcupine.Visualize(model, info, w); err != nil {
		return true, fmt.Errorf("draw: %w", err)
	}
	return true, nil
}
