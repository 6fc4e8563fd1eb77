package subjects

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/strategies/lock"
	"github.com/marketsim/marketsim/verify/locktest"
)

func TestMain(m *testing.M) { testkit.VerifyNoLeaks(m) }

// A lock whose Kind forgets to list a key is found.
func TestUndeclaredKeysAreFound(t *testing.T) {
	t.Parallel()
	s := testkit.Local(t)
	for _, name := range []string{"set-px", "fenced"} { // fenced has a counter beside its key
		for _, forgets := range []bool{false, true} {
			kind := kindNamed(t, name)
			if forgets {
				kind.Keys = func(string) []string {
					return []string{"another"}
				}
			}

			messages := testkit.Try(t, func(r testing.TB) {
				worker := locktest.Worker{TTL: time.Minute, Timeout: time.Minute}
				l := OnRedis{Server: s, Kind: kind}.Factory(r).Open(r, worker)
				if _, err := l.Acquire(t.Context(), "item"); err != nil {
					t.Error(err)
				}
			})
			if strings.Contains(messages, "do not list") != forgets {
				t.Errorf("%s, and its Keys forget %t: %q", kind.Name, forgets, messages)
			}
		}
	}
}

// A Locker may be a value that cannot be compared.
func TestALockerMayBeAStruct(t *testing.T) {
	t.Parallel()
	kind := kindNamed(t, "set-px")
	newLocker := kind.New
	kind.New = func(env lock.Env) (lock.Locker, error) {
		l, err := newLocker(env)
		return struct {
			lock.Locker
			_ []int
		}{Locker: l}, err
	}

	subject := OnRedis{Server: testkit.Embedded(t), Kind: kind, Parallel: true}
	report := locktest.Run(t, subject.Factory(t))
	report.Require(t, "survives a crash")
}

func kindNamed(t *testing.T, name string) lock.Kind {
	t.Helper()
	all := lock.All()
	i := slices.IndexFunc(all, func(k lock.Kind) bool {
		return k.Name == name
	})
	if i < 0 {
		t.Fatalf("there is no lock %s", name)
	}
	return all[i]
}
