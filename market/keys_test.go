package market_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/market"
)

func TestNewKeysRefusesAPrefixThatCouldMatchOthers(t *testing.T) {
	for _, prefix := range []string{
		"", ":", "name", "a*:", "a?:", "[a]:", `a\:`, "a b:", "a\n:", "a\x7f:", "marketsim:{x}:users",
		strings.Repeat("a", 100_000) + ":",
	} {
		if _, err := market.NewKeys(prefix); !errors.Is(err, market.ErrPrefix) {
			t.Errorf("NewKeys(%.50q): %v, want %v", prefix, err, market.ErrPrefix)
		}
	}

	for _, prefix := range []string{
		"a:", "a:b:", "marketsim:{7f3a}:", "é:", strings.Repeat("a", 250) + ":",
	} {
		if k, err := market.NewKeys(prefix); err != nil || k.Prefix() != prefix {
			t.Errorf("NewKeys(%q) has prefix %q, %v", prefix, k.Prefix(), err)
		}
	}
}

func TestKeysAreTheBooks(t *testing.T) {
	k, err := market.NewKeys("p:")
	if err != nil {
		t.Fatal(err)
	}
	got := []string{
		k.User(17), k.Inventory(17), k.Market(), k.Lock("market"), k.Fence("market"),
		k.Outcomes(), k.Run(), market.Member(3, 17),
	}
	want := "p:users:17 p:inventory:17 p:market: p:lock:market p:fence:market p:outcomes p:run 3.17"
	if strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestParseMemberRefusesWhatMemberDoesNotSpell(t *testing.T) {
	for _, member := range []string{
		"", ".", "1", "1.", ".1", "1.2.3", "01.2", "1.+2", " 1.2", "1e3.2",
		"9223372036854775808.1", "-0.1",
	} {
		if item, seller, err := market.ParseMember(member); err == nil {
			t.Errorf("ParseMember(%q) = %d, %d", member, item, seller)
		}
	}
}

func FuzzParseMember(f *testing.F) {
	for _, member := range []string{"1.2", "-1.2", "1..2", "007.1", "9223372036854775807.1"} {
		f.Add(member)
	}
	f.Fuzz(func(t *testing.T, member string) {
		item, seller, err := market.ParseMember(member)
		if err == nil && market.Member(item, seller) != member {
			t.Errorf("ParseMember(%q) = %d, %d", member, item, seller)
		}
	})
}
