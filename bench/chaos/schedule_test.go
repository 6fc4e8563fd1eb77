package chaos

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/step"
)

func TestSameSeedSameSchedule(t *testing.T) {
	p := Plan{Seed: 7, Duration: 10 * time.Minute, Lease: 500 * time.Millisecond}
	first := p.Schedule()
	if !reflect.DeepEqual(first, p.Schedule()) {
		t.Error("two schedules of one seed differ")
	}
	p.Seed++
	if reflect.DeepEqual(first, p.Schedule()) {
		t.Error("the schedules of two seeds are the same")
	}
}

// TestSchedule looks at what must hold of the schedules of all seeds.
func TestSchedule(t *testing.T) {
	const ttl = 500 * time.Millisecond
	for seed := range uint64(50) {
		p := Plan{Seed: seed, Duration: time.Minute, Lease: ttl, Locked: true, LockServers: 3, Child: true}
		var all time.Duration
		rounds := p.Schedule()
		for i, r := range rounds {
			count := map[FaultKind]int{}
			decisive := false
			for _, f := range r.Faults {
				count[f.Kind]++
				all += f.Wait + f.Length
				pause := f.Kind == ServerPause || f.Kind == ClientPause || f.Kind == LockPause || f.Kind == ProcessPause
				if pause && f.Length <= ttl {
					t.Errorf("seed %d: %s is no longer than a lock lives", seed, f)
				}
				if f.Server < 1 || f.Server > p.LockServers {
					t.Errorf("seed %d: %s strikes a server that is not there", seed, f)
				}
				decisive = decisive || f.Kind == ClientPause && !f.Seller && f.Step == step.BeforeWrite
			}
			all += r.Rest
			if last := i == len(rounds)-1; last {
				break // it may be cut short
			}
			for _, k := range faultKinds() {
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

// TestScheduleOfWhatIsThere: a schedule lists no fault that has nothing to strike, and is filled with the others.
func TestScheduleOfWhatIsThere(t *testing.T) {
	rounds := Plan{Seed: 5, Duration: time.Minute}.Schedule()
	if len(rounds) < 3 {
		t.Errorf("%d rounds", len(rounds))
	}
	for _, r := range rounds {
		for _, f := range r.Faults {
			if f.Kind == LockKill || f.Kind == LockPause || f.Kind == ProcessPause || f.Step == step.Acquired || f.Step == step.BeforeRelease {
				t.Errorf("without a lock: %s at %s", f, f.Step)
			}
		}
	}
}

func TestScheduleTooShortForAnything(t *testing.T) {
	rounds := Plan{Duration: time.Millisecond}.Schedule()
	if len(rounds) != 1 || len(rounds[0].Faults) != 0 || rounds[0].Rest != time.Millisecond {
		t.Errorf("got %+v", rounds)
	}
}

func TestFaultInWords(t *testing.T) {
	for want, f := range map[string]Fault{
		"black-hole of line 2 of 3 for 50ms":            {Kind: BlackHole, Line: 2, Length: 50 * time.Millisecond},
		"lost-reply after 12 bytes on all lines for 1s": {Kind: LostReply, Bytes: 12, Length: time.Second},
		"server-kill, back after 1s":                    {Kind: ServerKill, Length: time.Second},
		"lock-kill of server 2, back after 1s":          {Kind: LockKill, Server: 2, Length: time.Second},
		"lock-pause of server 3 for 1s":                 {Kind: LockPause, Server: 3, Length: time.Second},
		"server-pause for 1s":                           {Kind: ServerPause, Length: time.Second},
		"client-pause of a buyer at read for 1s":        {Kind: ClientPause, Step: step.Read, Length: time.Second},
		"client-pause of a seller at read for 1s": {
			Kind: ClientPause, Step: step.Read, Seller: true, Length: time.Second,
		},
		"process-pause of half the workers, with a buyer at read, for 1s": {
			Kind: ProcessPause, Step: step.Read, Length: time.Second,
		},
		"latency of 9ms (give or take 2ms) on line 1 of 3 for 1s": {
			Kind: Latency, Line: 1, Delay: 9 * time.Millisecond, Jitter: 2 * time.Millisecond, Length: time.Second,
		},
	} {
		if got := f.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for _, k := range slices.Concat(faultKinds(), clusterKinds) {
		if text := (Fault{Kind: k}).String(); !strings.Contains(text, string(k)) {
			t.Errorf("%s is told as %q", k, text)
		}
	}
}

// faultKinds lists every kind once.
func faultKinds() []FaultKind { return slices.Compact(slices.Clone(kinds[:])) }
