package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/marketsim/marketsim/market/backend"
)

// line is a proxy between some workers and the server. It is not safe for concurrent use.
type line struct {
	proxy  *toxiproxy.Proxy
	target backend.Target // how workers reach the server by this line
}

func openLine(server backend.Target) (*line, error) {
	toxic := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	l := &line{proxy: toxiproxy.NewProxy(toxic, "line", "127.0.0.1:0", server.Addr), target: server}
	if err := l.start(); err != nil {
		return nil, err
	}
	l.target.Addr = l.proxy.Listen
	return l, nil
}

// start opens the line, at the address that it had if it was open before.
func (l *line) start() error {
	if l.proxy.Enabled {
		return nil
	}
	if err := l.proxy.Start(); err != nil {
		return fmt.Errorf("starting a proxy at %s: %w", l.proxy.Listen, err)
	}
	return nil
}

// stop closes all connections and refuses new ones.
func (l *line) stop() { l.proxy.Stop() }

// A toxic is something bad that toxiproxy does to one direction of a line.
type toxic struct {
	Type       string           `json:"type"`
	Stream     string           `json:"stream"` // upstream: what clients send
	Attributes map[string]int64 `json:"attributes"`
}

// poison adds a toxic.
func (l *line) poison(t toxic) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(string(text))); err != nil {
		return fmt.Errorf("adding %s to a proxy: %w", text, err)
	}
	return nil
}

// clean removes all toxics. Data that one of them withheld is delivered.
func (l *line) clean() { l.proxy.Toxics.ResetToxics(context.Background()) }
