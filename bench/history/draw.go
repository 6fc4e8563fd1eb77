package history

import (
	"bytes"
	"context"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// drawTimeout bounds the search for how far an order of a story's operations comes.
const drawTimeout = 10 * time.Second

// Draw writes an HTML page that tells the story, and shows below it the operations and how far an order of them comes, as
// far as that is known within some seconds. It reports whether there is anything to draw. The page names the history as
// of says.
func (s Story) Draw(w io.Writer, of string) (bool, error) { return s.draw(w, of, drawTimeout) }

func (s Story) draw(w io.Writer, of string, timeout time.Duration) (bool, error) {
	if s.finding == nil {
		return false, nil
	}
	c := &checker{ctx: context.Background()}
	model := c.model(s.finding.from)
	_, info := porcupine.CheckOperationsVerbose(model, operations(s.finding.steps), timeout)
	var picture, page bytes.Buffer
	err := porcupine.Visualize(model, info, &picture)
	if err == nil {
		err = s.above(&page, of, picture.String())
	}
	if err == nil {
		_, err = page.WriteTo(w)
	}
	if err != nil {
		return true, fmt.Errorf("draw: %w", err)
	}
	return true, nil
}

// above writes porcupine's page with the story above its picture.
func (s Story) above(w io.Writer, of, picture string) error {
	head, body, found := strings.Cut(picture, "<body>")
	before, after, titled := strings.Cut(head, "<title>Porcupine</title>")
	if !found || !titled {
		return fmt.Errorf("porcupine's page has no title or no body where it had them in its version 1.3.1")
	}
	// The rest of the page is porcupine's own, which writes its data as JSON that HTML cannot misread.
	return storyPage.Execute(w, struct {
		Of, About, Start, Wrong string
		Steps                   []string
		Before, After, Body     template.HTML
	}{
		of, s.telling.of, s.telling.start, s.telling.wrong, s.telling.steps,
		template.HTML(before), template.HTML(after), template.HTML(body),
	})
}

// storyPage is porcupine's page with a story. Porcupine draws on white only, and keeps its legend at the top of the window,
// where the story is.
var storyPage = template.Must(template.New("story").Parse(`{{.Before}}<title>{{.About}}: {{.Wrong}}</title>
    <style>
      :root { color-scheme: light; }
      #story { max-width: 46rem; margin: 1.5rem 10px; line-height: 1.45; overflow-wrap: anywhere; }
      #story h1 { font-size: 1.5rem; margin: 0 0 0.5rem; }
      #story li { margin: 0.2rem 0; }
      body #legend { position: static; }
      body #legend svg { overflow: visible; }
      body #canvas { margin-top: 0.5rem; overflow-x: auto; }
    </style>
{{.After}}<body>
    <main id="story">
      <h1>{{.About}}: {{.Wrong}}</h1>
      <p>{{.Of}}. No order of these operations, one after the other, explains every reply and what the market held at
      the end. By the time of their replies, with the seconds between call and reply:</p>
      <ol>
        {{- with .Start}}
        <li>{{$.About}} {{.}}</li>{{end}}
        {{- range .Steps}}
        <li>{{.}}</li>{{end}}
      </ol>
      <p>The picture has a line for each client and a box for each operation, from call to reply. Point at a box: the
      longest order that it is in is drawn, and in red what that cannot go on with. LP is the instant at which an operation
      takes effect.</p>
    </main>{{.Body}}`))
