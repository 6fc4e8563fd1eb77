package suite

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/verify"
	"github.com/marketsim/marketsim/verify/explore"
)

// A trading is one schedule, and what its clients have done in it.
type trading struct {
	Market
	keys    market.Keys
	traders []*trader
	// What was found, by how a schedule ended and what its clients were answered: a few ends
	// of very many schedules.
	judged map[string][]verify.Violation
}

func (r *trading) trial(open market.Open) *explore.Trial {
	trial := &explore.Trial{Judge: r.judge, Vacuous: r.vacuous, State: r.state}
	for _, t := range r.Traders {
		c := &trader{Trader: t}
		r.traders = append(r.traders, c)
		run := func(ctx context.Context, s *explore.Session) string {
			return c.run(ctx, s, r.keys, open)
		}
		trial.Clients = append(trial.Clients, explore.Client{Name: t.Client, Do: run})
	}
	return trial
}

// state is the explore.Trial's State of clients that share nothing but servers: what each was
// answered follows from the replies that it had. Of faults that left no trace the judge asks
// where clients pay each other.
func (r *trading) state() string {
	if r.PayEachOther && r.wasStruck() {
		return "struck"
	}
	return ""
}

// wasStruck reports whether a fault has happened.
func (r *trading) wasStruck() bool {
	sees := func(c *trader) bool {
		return c.session != nil && c.session.Seen().Faults > 0
	}
	return slices.ContainsFunc(r.traders, sees)
}

type trader struct {
	Trader
	session *explore.Session // nil: it has not begun
	ledger  market.Ledger
	answers []string      // to each trade
	longest time.Duration // that it waited for an answer
	failed  error         // why it could not trade
}

// run makes the client's purchaser, and trades for as long as the answer is yes.
func (c *trader) run(
	ctx context.Context, s *explore.Session, keys market.Keys, open market.Open,
) string {
	// Whatever the client has of the world comes from its session: network, clock and number.
	c.session = s
	purchaser, closer, err := open.For(ctx, market.Worker{
		ClientEnv:   market.ClientEnv{Number: s.Number(), Dial: s.Connect, Now: s.Now},
		LockServers: s.LockServers(),
		Keys:        keys,
		Resends:     s.Resends(),

		ReplyTimeout: s.ReplyTimeout(),
	})
	if err != nil {
		c.failed = fmt.Errorf("open the purchaser: %w", err)
		return c.failed.Error()
	}
	defer closer.Close()

	var log []string
	for _, o := range c.Trades {
		answer := c.trade(ctx, s, purchaser, o)
		log = append(log, fmt.Sprintf("is item %d %s? %s", o.Item, participle(o), answer))
		if answer != yes {
			break
		}
	}
	return strings.Join(log, "; ")
}

// participle is what an applied trade has done to its item.
func participle(o market.Order) string {
	if o.Buyer == 0 {
		return "listed"
	}
	return "bought"
}

const yes = "yes" // the answer to a trade that was applied

func (c *trader) trade(
	ctx context.Context, s *explore.Session, purchaser market.Purchaser, o market.Order,
) (answer string) {
	call, end := s.Call(ctx)
	defer end()

	// Not by s.Now: a search has faults of clocks strike the clients that have read theirs.
	began := time.Now()
	_, err := deal(call, purchaser, o)
	c.longest = max(c.longest, time.Since(began))

	// A client that has died was told nothing, whatever its code returned afterwards.
	switch {
	case s.Died():
		err = errors.New("the client died")
		answer = "it has died"
	case err == nil:
		answer = yes
	case market.Refused(err):
		answer = "no, " + strings.ReplaceAll(market.Reason(err), "_", " ")
	default:
		answer = "it is not known"
	}

	// judge takes ledgers with equal answers for equal: errors that a Ledger notes in different
	// ways have different answers.
	c.answers = append(c.answers, answer)
	note(&c.ledger, o, err)
	return answer
}

// vacuous is an error if nothing was traded without a fault.
func (r *trading) vacuous() error {
	var answers []string
	for _, c := range r.traders {
		answers = append(answers, c.answers...)
		if c.failed != nil || slices.Contains(c.answers, yes) {
			return c.failed
		}
	}
	return fmt.Errorf("without faults nothing was traded, "+
		"so that the search would find nothing: %q", answers)
}

// judge audits the market. Nearly all schedules end in one of a few ways, and each is audited
// once: all that judgeEnd depends on has to be in end.
func (r *trading) judge(s *explore.Server) []verify.Violation {
	var end strings.Builder
	for id := market.UserID(1); id <= market.UserID(r.accounts()); id++ {
		end.WriteString(s.Do("HGET", r.keys.User(id), "funds") + s.Do("SMEMBERS", r.keys.Inventory(id)))
	}
	end.WriteString(s.Do("ZRANGE", r.keys.Market(), "0", "-1", "WITHSCORES") + s.Do("KEYS", "*"))
	for _, c := range r.traders {
		end.WriteString(strings.Join(c.answers, " ") + "\n")
	}

	found, known := r.judged[end.String()]
	if !known {
		found = r.judgeEnd(s)
		r.judged[end.String()] = found
	}
	if r.waitedForEachOther() {
		found = append(slices.Clone(found), verify.Violation{
			Harm: verify.WaitForEachOther,
			Text: "each has waited for longer than a lease, until both have given up, and nothing happened",
		})
	}
	return found
}

// waitedForEachOther reports whether clients that pay each other have all given up while
// nothing struck them. Each could have bought: none waits for what another one has sold.
func (r *trading) waitedForEachOther() bool {
	hasGivenUp := func(c *trader) bool {
		return len(c.answers) > 0 && c.answers[0] != yes && c.longest > r.Lease
	}
	hasNot := func(c *trader) bool { return !hasGivenUp(c) }
	return r.PayEachOther && !r.wasStruck() && !slices.ContainsFunc(r.traders, hasNot)
}

func (r *trading) judgeEnd(s *explore.Server) []verify.Violation {
	ctx := context.Background()
	dialer := redisconn.Over(func(ctx context.Context) (net.Conn, error) {
		return s.Connect(ctx, "", "")
	})
	conn, err := dialer.Dial(ctx)
	if err != nil {
		return notAudited(err)
	}
	defer conn.Close()
	var ledgers []*market.Ledger
	for _, c := range r.traders {
		ledgers = append(ledgers, &c.ledger)
	}
	return r.Audit(ctx, conn.Client, r.keys, ledgers...)
}
