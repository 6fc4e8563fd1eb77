package chaos_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/bench/chaos"
	"github.com/marketsim/marketsim/strategies/step"
)

func TestSameSeedSameSchedule(t *testing.T) {
	p := chaos.Plan{Seed: 7, Duration: 10 * time.Minute, TTL: 500 * time.Millisecond}
	first := p.Rounds()
	if !reflect.DeepEqual(first, p.Rounds()) {
		t.Error("two schedules of one seed differ")
	}
	p.Seed++
	if reflect.DeepEqual(first, p.Rounds()) {
		t.Error("the schedules of two seeds are the same")
	}
}

// TestSchedule looks at what must hold of the schedules of all seeds.
func TestSchedule(t *testing.T) {
	const ttl = 500 * time.Millisecond
	for seed := range uint64(50) {
		p := chaos.Plan{Seed: seed, Duration: time.Minute, TTL: ttl}
		var all time.Duration
		rounds := p.Rounds()
		for i, r := range rounds {
			count := map[chaos.Kind]int{}
			decisive := false
			for _, f := range r.Faults {
				count[f.Kind]++
				all += f.Wait + f.Length
				if pause := f.Kind == chaos.ServerPause || f.Kind == chaos.ClientPause; pause && f.Length <= ttl {
					t.Errorf("seed %d: %s is no longer than a lock lives", seed, f)
				}
				decisive = decisive || f.Kind == chaos.ClientPause && !f.Seller && f.Step == step.BeforeWrite
			}
			all += r.Rest
			if last := i == len(rounds)-1; last {
				break // it may be cut short
			}
			for _, k := range chaos.Kinds() {
				if count[k] == 0 {
					t.Errorf("seed %d: round %d has no %s", seed, i+1, k)
				}
			}
			if !decisive {
				t.Errorf("seed %d: round %d holds no buyer who is about to write", seed, i+1)
			}
		}
		if all != p.Duration {
			t.Errorf("seed %d: %d rounds take %s, want %s", seed, len(rounds), all, p.Duration)
		}
	}
}

func TestScheduleTooShortForAnything(t *testing.T) {
	rounds := chaos.Plan{Duration: time.Millisecond}.Rounds()
	if len(rounds) != 1 || len(rounds[0].Faults) != 0 || rounds[0].Rest != time.Millisecond {
		t.Errorf("got %+v", rounds)
	}
}

func TestFaultInWords(t *testing.T) {
	for want, f := range map[string]chaos.Fault{
		"black-hole of line 2 of 3 for 50ms":            {Kind: chaos.BlackHole, Line: 2, Length: 50 * time.Millisecond},
		"lost-reply after 12 bytes on all lines for 1s": {Kind: chaos.LostReply, Bytes: 12, Length: time.Second},
		"server-kill, back after 1s":                    {Kind: chaos.ServerKill, Length: time.Second},
		"server-pause for 1s":                           {Kind: chaos.ServerPause, Length: time.Second},
		"client-pause of a buyer at read for 1s":        {Kind: chaos.ClientPause, Step: step.Read, Length: time.Second},
		"client-pause of a seller at read for 1s":       {Kind: chaos.ClientPause, Step: step.Read, Seller: true, Length: time.Second},
		"latency of 9ms (give or take 2ms) on line 1 of 3 for 1s": {
			Kind: chaos.Latency, Line: 1, Delay: 9 * time.Millisecond, Jitter: 2 * time.Millisecond, Length: time.Second,
		},
	} {
		if got := f.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for _, k := range chaos.Kinds() {
		if text := (chaos.Fault{Kind: k}).String(); !strings.Contains(text, string(k)) {
			t.Errorf("%s is told as %q", k, text)
		}
	}
}
