package bench

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseMix(t *testing.T) {
	for text, want := range map[string]Mix{"1x1": {1, 1}, "5x1": {5, 1}, "12x345": {12, 345}, "10000x10000": {10_000, 10_000}} {
		if m, err := ParseMix(text); m != want || err != nil {
			t.Errorf("%q: %v, %v", text, m, err)
		}
	}
	for _, text := range []string{
		"", "x", "5", "5x", "x5", "0x1", "1x0", "-1x1", "1x-1", "+1x1", "01x1", "1x1 ", " 1x1", "1 x 1", "1X1", "1x1x1",
		"1.0x1", "5,1", "1e1x1", "10001x1", "1x10001", "99999999999999999999x1", "\uff11x1", "1x1\n",
	} {
		m, err := ParseMix(text)
		if !errors.Is(err, ErrConfig) || m != (Mix{}) {
			t.Errorf("%q: %v, %v; want ErrConfig", text, m, err)
		} else if !strings.Contains(err.Error(), "5x1") {
			t.Errorf("%q: no example in %q", text, err)
		}
	}
}

// FuzzParseMix: what is read as a mix is how that mix is written, and nothing else is.
func FuzzParseMix(f *testing.F) {
	for _, text := range []string{"5x1", "1x1", "x", "01x1", "0x0", "5x", "10000x10001"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseMix(text)
		switch {
		case err != nil && !errors.Is(err, ErrConfig):
			t.Errorf("%q: %v is not ErrConfig", text, err)
		case err == nil && (m.String() != text || m.Sellers < 1 || m.Buyers < 1):
			t.Errorf("%q is read as %v", text, m)
		}
	})
}

// TestConfig: what cannot be run is refused before anything is dialled (which would panic here).
func TestConfig(t *testing.T) {
	good := Config{Subject: noSubject{}, Mix: Mix{2, 3}, Duration: time.Second, Warmup: time.Second, Wallets: 3, Funds: 1}
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
		config := Config{Subject: noSubject{}, Mix: Mix{2, 5}, Wallets: c.wallets, Funds: 9}
		o := config.opening()
		if o.Accounts != c.accounts || o.Funds != 9 || o.Strategy != "none" || config.seller(1) != 2 {
			t.Errorf("%d wallets: %+v, second seller %d", c.wallets, o, config.seller(1))
		}
		if first, last := config.buyer(0), config.buyer(4); int(first) != c.first || int(last) != c.last {
			t.Errorf("%d wallets: buyers from %d to %d, want %d to %d", c.wallets, first, last, c.first, c.last)
		}
	}
}
