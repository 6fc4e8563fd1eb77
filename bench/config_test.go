package bench

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/result"
)

func TestParseMix(t *testing.T) {
	for text, want := range map[string]result.Mix{
		"1x1": mix1x1, "5x5": mix5x5, "12x345": {Sellers: 12, Buyers: 345}, "500x500": {Sellers: 500, Buyers: 500},
	} {
		if m, err := ParseMix(text); m != want || err != nil {
			t.Errorf("%q: %v, %v", text, m, err)
		}
	}
	for _, text := range []string{
		"", "x", "5", "5x", "x5", "0x1", "1x0", "-1x1", "1x-1", "+1x1", "01x1", "1x1 ", " 1x1", "1 x 1", "1X1", "1x1x1",
		"1.0x1", "5,1", "1e1x1", "\uff11x1", "1x1\n",
		"1000x1", "1x1000", "501x500", "99999999999999999999x1", "9223372036854775807x9223372036854775807",
	} {
		m, err := ParseMix(text)
		if !errors.Is(err, ErrConfig) || m != (result.Mix{}) {
			t.Errorf("%q: %v, %v; want ErrConfig", text, m, err)
		} else if s := err.Error(); !strings.Contains(s, "such as 5x1") && !(len(text) > 5 && strings.Contains(s, "at most 1000")) {
			t.Errorf("%q: neither an example nor the limit in %q", text, err)
		}
	}
}

// TestConfig: what cannot be run is refused before anything is dialled (which would panic here).
func TestConfig(t *testing.T) {
	good := Config{
		Subject: noSubject{}, Mix: result.Mix{Sellers: 2, Buyers: 3}, Duration: time.Second, Warmup: time.Second, Wallets: 3,
		Funds: 1,
	}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	for want, spoil := range map[string]func(*Config){
		"at least one seller":          func(c *Config) { c.Mix.Sellers = 0 },
		"and one buyer":                func(c *Config) { c.Mix.Buyers = -1 },
		"duration 0s must be positive": func(c *Config) { c.Duration = 0 },
		"duration -1s":                 func(c *Config) { c.Duration = -time.Second },
		"warm-up -1ns":                 func(c *Config) { c.Warmup = -1 },
		"funds -1":                     func(c *Config) { c.Funds = -1 },
		"-1 wallets":                   func(c *Config) { c.Wallets = -1 },
		"4 wallets for 3 buyers":       func(c *Config) { c.Wallets = 4 },
		"-1 purchases":                 func(c *Config) { c.Purchases, c.Warmup = -1, 0 },
		"9 purchases after a warm-up":  func(c *Config) { c.Purchases = 9 },
		"9 purchases at a rate":        func(c *Config) { c.Purchases, c.Warmup, c.Rate = 9, 0, 1 },
		"a rate of -1 purchases/s":     func(c *Config) { c.Rate, c.Arrivals = -1, Poisson },
		`arrivals ""`:                  func(c *Config) { c.Rate = 1 },
	} {
		bad := good
		spoil(&bad)
		row, err := Run(t.Context(), bad)
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrConfig and %q", err, want)
		}
		if row.Strategy != "" {
			t.Errorf("%s: a row was made: %+v", want, row)
		}
	}
}

// TestAccounts: sellers come first, and buyers who share wallets take turns.
func TestAccounts(t *testing.T) {
	for _, c := range []struct {
		wallets, accounts, first, last int
	}{{0, 7, 3, 7}, {5, 7, 3, 7}, {2, 4, 3, 3}, {1, 3, 3, 3}} {
		config := Config{Subject: noSubject{}, Mix: result.Mix{Sellers: 2, Buyers: 5}, Wallets: c.wallets, Funds: 9}
		o := config.opening()
		if o.Accounts != c.accounts || o.Funds != 9 || o.Strategy != "none" || config.account(Seller, 1) != 2 {
			t.Errorf("%d wallets: %+v, second seller %d", c.wallets, o, config.account(Seller, 1))
		}
		if first, last := config.account(Buyer, 0), config.account(Buyer, 4); int(first) != c.first || int(last) != c.last {
			t.Errorf("%d wallets: buyers from %d to %d, want %d to %d", c.wallets, first, last, c.first, c.last)
		}
	}
}
