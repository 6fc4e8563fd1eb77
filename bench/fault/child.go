package fault

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/strategies/step"
)

// childEnv marks a process that plays a client.
const childEnv = "MARKETSIM_FAULT_CHILD"

// ServeChild plays a client if this process was started to be one, and then ends the process. In any other process it
// returns at once. subjects finds the subject of a name, as in Subject.String.
func ServeChild(subjects func(name string) (Purchasing, error)) {
	if os.Getenv(childEnv) == "" {
		return
	}
	backend.QuietLogs()
	if err := serve(os.Stdin, os.Stdout, subjects); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// client is the child's side of an actor.
type client struct {
	purchaser market.Purchaser
	accounts  int
	gate      gate

	mu  sync.Mutex
	out *json.Encoder
}

// serve plays one client until its input ends.
func serve(in io.Reader, out io.Writer, subjects func(string) (Purchasing, error)) error {
	lines := json.NewDecoder(bufio.NewReader(in))
	c := &client{out: json.NewEncoder(out)}
	c.gate.report = func(at step.Name) { c.tell(event{At: at}) }
	var cast casting
	if err := lines.Decode(&cast); err != nil {
		return fmt.Errorf("read the casting: %w", err)
	}
	closer, err := c.open(cast, subjects)
	if err != nil {
		c.tell(event{Error: err.Error()})
		return err
	}
	c.tell(event{Ready: true})
	var working sync.WaitGroup
	for {
		var cmd command
		if err := lines.Decode(&cmd); err != nil {
			c.gate.abandon()
			working.Wait()
			return closer()
		}
		switch cmd.Do {
		case doGo:
			c.gate.open()
		case doFree:
			c.gate.abandon()
		default:
			c.gate.set(cmd.Hold)
			working.Go(func() { c.work(cmd) })
		}
	}
}

func (c *client) tell(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.out.Encode(e) // a parent that is gone ends the input, too
}

func (c *client) work(cmd command) {
	ctx := context.Background()
	switch cmd.Do {
	case doList:
		c.tell(event{Done: outcomeOf(c.purchaser.List(ctx, cmd.Listing))})
	case doBuy:
		c.tell(event{Done: outcomeOf(c.purchaser.Purchase(ctx, cmd.Order))})
	case doLook:
		browser, ok := c.purchaser.(market.Browser)
		if !ok {
			c.tell(event{Error: "cannot browse"})
			return
		}
		seen, receipt, err := browser.Browse(ctx, cmd.Listing, c.accounts)
		o := outcomeOf(receipt, err)
		o.Torn = seen.Torn
		c.tell(event{Done: o})
	default:
		c.tell(event{Error: fmt.Sprintf("unknown command %q", cmd.Do)})
	}
}
