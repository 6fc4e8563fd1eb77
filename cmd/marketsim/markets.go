package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/backend"
)

// sites are where so many markets lie, the first under first. On a cluster each lies in the slot of its braces, and
// they are spread evenly over the masters that there are now. Nothing is drawn: the same cluster and prefix have the same
// sites.
func sites(ctx context.Context, server *backend.Server, first market.Keys, number int) ([]bench.Site, error) {
	var masters []string
	if cluster := server.Cluster(); cluster != nil {
		for _, master := range cluster.Masters() {
			masters = append(masters, master.Addr)
		}
	}
	var all []bench.Site
	for i := range number {
		keys := first
		if i > 0 {
			var err error
			if keys, err = nth(server, first, i, masters); err != nil {
				return nil, err
			}
		}
		all = append(all, bench.Site{Keys: keys, Node: server.Master(keys.Prefix()).Addr, Dial: server.Dialer(keys.Prefix())})
	}
	return all, nil
}

// nth are the keys of the i-th market after the first, on the i-th master after that of the first if there are several.
// Their name is the first's with a number, and on a cluster with a second number that takes it to that master.
func nth(server *backend.Server, first market.Keys, i int, masters []string) (market.Keys, error) {
	keys, err := numbered(first, fmt.Sprintf("-%d", i+1))
	if len(masters) < 2 || err != nil {
		return keys, err
	}
	master := func(k market.Keys) string { return server.Cluster().Master(k.Prefix()).Addr }
	wanted := masters[(slices.Index(masters, master(first))+i)%len(masters)]
	for k := 1; master(keys) != wanted; k++ {
		if keys, err = numbered(first, fmt.Sprintf("-%d.%d", i+1, k)); err != nil {
			return keys, err
		}
	}
	return keys, nil
}

// numbered are keys whose prefix ends in a number, within its braces if it has any.
func numbered(keys market.Keys, number string) (market.Keys, error) {
	before, after := around(keys)
	return market.NewKeys(before + number + after)
}

// around is what comes before and after the number in the prefixes of a run's other markets, whose first one is under keys.
func around(keys market.Keys) (before, after string) {
	prefix := keys.Prefix()
	end := strings.Index(prefix, "}")
	if end < 0 {
		end = len(prefix) - 1 // before the colon
	}
	return prefix[:end], prefix[end:]
}

// findOthers looks on all masters for the other markets of a run whose first one has lost its note: those whose notes name it,
// and, if nobody chose its prefix, those with a number behind it that have lost theirs as well.
func findOthers(ctx context.Context, server *backend.Server, first market.Keys) (all []market.Keys, err error) {
	before, after := around(first)
	form := regexp.MustCompile("^" + regexp.QuoteMeta(before) + `-\d+(?:\.\d+)?` + regexp.QuoteMeta(after))
	err = eachMaster(ctx, server, func(conn *backend.Conn) error {
		prefixes := map[string]bool{}
		names := conn.Scan(ctx, 0, before+"-*"+after+"*", 10_000).Iterator()
		for names.Next(ctx) {
			prefixes[form.FindString(names.Val())] = true
		}
		delete(prefixes, "")
		if err := names.Err(); err != nil {
			return fmt.Errorf("look for other markets of %s: %w", first.Prefix(), err)
		}
		for _, prefix := range slices.Sorted(maps.Keys(prefixes)) {
			keys, err := market.NewKeys(prefix)
			if err != nil {
				return err
			}
			switch made, err := market.ReadMade(ctx, conn.Client, keys); {
			case err == nil && made.First == first || lost(err) && drawn(first):
				all = append(all, keys)
			case err != nil && !lost(err) && !errors.Is(err, market.ErrForeign):
				return err
			}
		}
		return nil
	})
	return all, err
}

// place gives each row the sites of its markets, and refuses a prefix that they cannot have.
func (s *session) place(ctx context.Context) error {
	first := s.config.base.Keys
	if err := oneSlot(s.server, first.Prefix()); err != nil {
		return err
	}
	for i := range s.rows {
		s.rows[i].Dial, s.rows[i].Servers = s.server.Dialer(first.Prefix()), lockAddresses(s.locks)
	}
	most := 1
	for _, row := range s.rows {
		most = max(most, row.Markets)
	}
	all, err := sites(ctx, s.server, first, most)
	if err != nil {
		return err
	}
	for i := range s.rows {
		s.rows[i].Sites = all[:max(1, s.rows[i].Markets)]
	}
	s.sites = all
	return nil
}

// occupied is an error if there are keys under the prefix of a market.
func (s *session) occupied(ctx context.Context) error {
	for _, site := range s.sites {
		conn, err := site.Dial(ctx)
		if err != nil {
			return err
		}
		if err = cmp.Or(market.Occupied(ctx, conn.Client, site.Keys), conn.Close()); err != nil {
			return err
		}
	}
	return nil
}
