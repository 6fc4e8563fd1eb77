package spread

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
	"github.com/marketsim/marketsim/market/step"
)

var (
	//go:embed list.lua
	listText string
	//go:embed begin.lua
	beginText string
	//go:embed pay.lua
	payText string
	//go:embed decide.lua
	decideText string
	//go:embed credit.lua
	creditText string
	//go:embed end.lua
	endText string

	listScript, beginScript, payScript    = redis.NewScript(listText), redis.NewScript(beginText), redis.NewScript(payText)
	decideScript, creditScript, endScript = redis.NewScript(decideText), redis.NewScript(creditText), redis.NewScript(endText)
	errDamaged                            = errors.New("the item's hash is damaged")
	itemFields                            = []string{"owner", "price", "version", "op", "buyer", "seller", "cost", "phase"}
	phasePaid                             = "paid"
)

// An Operation is a purchase under way. The package comment has its steps.
type Operation struct {
	Incarnation string // of the client: random, and drawn anew for each
	Sequence    int64  // numbers the operations of the incarnation from 1; 0: there is no operation
	Item        market.ItemID
	Buyer       market.UserID
	Seller      market.UserID
	Price       int64
	Paid        bool // DECIDE was made with the answer yes
}

// ID names the operation.
func (o Operation) ID() string { return o.Incarnation + "." + strconv.FormatInt(o.Sequence, 10) }

// Item is what the hash of an item holds.
type Item struct {
	Owner     market.UserID // 0: there is no such item
	Listed    bool
	Price     int64 // if it is listed
	Version   int64 // grows by one with each change of owner and price
	Operation Operation
}

// Meets returns why an order cannot be met: market.ErrNotListed or market.ErrPriceChanged; nil: it can, by the item.
func (i Item) Meets(o market.Order) error {
	switch {
	case !i.Listed || i.Owner != o.Seller:
		return market.ErrNotListed
	case i.Price != o.Price:
		return market.ErrPriceChanged
	}
	return nil
}

// parseItem reads the fields of an item's hash.
func parseItem(id market.ItemID, fields []any) (item Item, err error) {
	var errs []error
	number := func(i int) (n int64, there bool) {
		text, there := fields[i].(string)
		if there {
			n, err = strconv.ParseInt(text, 10, 64)
			errs = append(errs, err)
		}
		return n, there
	}
	owner, _ := number(0)
	item.Owner = market.UserID(owner)
	item.Price, item.Listed = number(1)
	item.Version, _ = number(2)
	if name, there := fields[3].(string); there {
		incarnation, sequence, _ := strings.Cut(name, ".")
		n, err := strconv.ParseInt(sequence, 10, 64)
		buyer, _ := number(4)
		seller, _ := number(5)
		cost, _ := number(6)
		errs = append(errs, err)
		item.Operation = Operation{
			Incarnation: incarnation, Sequence: n, Item: id, Buyer: market.UserID(buyer), Seller: market.UserID(seller),
			Price: cost, Paid: fields[7] == phasePaid,
		}
	}
	if err := errors.Join(errs...); err != nil {
		return Item{}, fmt.Errorf("%w: item %d: %w", errDamaged, id, err)
	}
	return item, nil
}

// An Answer is what PAY says.
type Answer string

// The answers. All but Paid mean no.
const (
	Paid      Answer = "paid"
	Short     Answer = "short"     // the buyer has too few coins
	Withdrawn Answer = "withdrawn" // the client gave the operation up
	Older     Answer = "older"     // the client has gone on to a later one
)

// Trade makes the steps of operations for one worker. The zero value of what is optional is ready.
type Trade struct {
	Slots    Slots
	Keys     market.Keys
	Steps    step.Observer // may be nil
	Patience time.Duration // how long a step is tried again while the cluster is not ready
}

// Read reads an item.
func (t Trade) Read(ctx context.Context, id market.ItemID) (item Item, err error) {
	key := t.Keys.Item(id)
	err = t.persist(ctx, Again, func(ctx context.Context) error {
		rdb, err := t.Slots.For(ctx, key)
		if err != nil {
			return err
		}
		fields, err := rdb.HMGet(ctx, key, itemFields...).Result()
		if err != nil {
			return err
		}
		item, err = parseItem(id, fields)
		return err
	})
	if err != nil {
		return Item{}, fmt.Errorf("read item %d: %w", id, err)
	}
	return item, nil
}

// The answers to a listing.
const (
	listed  = 1
	changed = 0  // the item is not as it was seen, and this listing was not made
	passed  = -1 // so much has happened that it cannot be told
)

// ErrPassed is returned by List, wrapped, if its first reply was lost and the item was sold and listed again before it
// could ask: nobody knows whether that was this listing.
var ErrPassed = errors.New("the item was sold and listed again before it could be asked whether this listing was made")

// List puts an item on the market that was seen unlisted, of that version. The name is drawn by the client for this
// listing. False means that it is not as it was seen, and the listing was certainly not made. After another error its
// outcome is unknown, unless Unsent says otherwise or a server refused it.
func (t Trade) List(ctx context.Context, l market.Listing, version int64, name string) (bool, error) {
	asked := 0
	answer := changed
	err := t.persist(ctx, Again, func(ctx context.Context) (err error) {
		answer, err = t.number(ctx, listScript, t.Keys.Item(l.Item), version, l.Price, name)
		if !Unsent(err) {
			asked++
		}
		return err
	})
	if err == nil && answer == passed && asked > 1 {
		err = ErrPassed
	}
	if err != nil {
		return false, fmt.Errorf("list item %d: %w", l.Item, err)
	}
	return answer == listed, nil
}

// Hint tells those who browse that an item is listed, and Unhint that it is not. They may not come to know: the item alone
// says so.
func (t Trade) Hint(ctx context.Context, l market.Listing) {
	if rdb, err := t.Slots.For(ctx, t.Keys.Market()); err == nil {
		rdb.ZAdd(ctx, t.Keys.Market(), redis.Z{Score: float64(l.Price), Member: market.Member(l.Item, l.Seller)})
	}
}

// Unhint is explained at Hint.
func (t Trade) Unhint(ctx context.Context, item market.ItemID, seller market.UserID) {
	if rdb, err := t.Slots.For(ctx, t.Keys.Market()); err == nil {
		rdb.ZRem(ctx, t.Keys.Market(), market.Member(item, seller))
	}
}

// Begin stores an operation on an item that was seen listed, of that version, without an operation. False means that it is
// not as it was seen. It is tried again only while it was certainly not executed. If a server refused it, it was not stored;
// after any other error that may be.
func (t Trade) Begin(ctx context.Context, op Operation, version int64) (bool, error) {
	var answer int
	err := t.persist(ctx, Unsent, func(ctx context.Context) (err error) {
		answer, err = t.number(ctx, beginScript, t.Keys.Item(op.Item), version, op.ID(), int64(op.Buyer))
		return err
	})
	if err != nil {
		return false, fmt.Errorf("begin to purchase item %d: %w", op.Item, err)
	}
	return answer == 1, nil
}

// Pay debits the buyer, unless it is recorded what became of the operation, and says what is recorded then. It is for
// the operation's client, once it is stored, and is tried again only while it was certainly not executed.
func (t Trade) Pay(ctx context.Context, op Operation) (Answer, error) {
	t.Steps.At(ctx, step.BeforePay)
	return t.pay(ctx, op, "pay", Unsent)
}

// Withdraw records that the operation is given up, unless it is recorded what became of it, and says what is recorded
// then. It is for a client that does not know whether the operation is stored, or paid.
func (t Trade) Withdraw(ctx context.Context, op Operation) (Answer, error) {
	return t.pay(ctx, op, "withdraw", Again)
}

func (t Trade) pay(ctx context.Context, op Operation, what string, again func(error) bool) (answer Answer, err error) {
	err = t.persist(ctx, again, func(ctx context.Context) error {
		said, err := t.run(ctx, payScript, t.Keys.Account(op.Buyer), op.Incarnation, op.Sequence, op.Price, what).Text()
		answer = Answer(said)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("%s for item %d from the account of user %d: %w", what, op.Item, op.Buyer, err)
	}
	return answer, nil
}

// Finish finishes another's operation that was found on its item. It may be called however late.
func (t Trade) Finish(ctx context.Context, op Operation) error {
	if op.Paid {
		return t.deliver(ctx, op)
	}
	t.Steps.At(ctx, step.BeforePay)
	answer, err := t.pay(ctx, op, "pay", Again)
	if err != nil {
		return err
	}
	return t.Complete(ctx, op, answer)
}

// Complete makes the steps that follow the answer of PAY. If it is no, an error leaves the operation to whoever meets it,
// and its client may go on.
func (t Trade) Complete(ctx context.Context, op Operation, answer Answer) error {
	t.Steps.At(ctx, step.BeforeDecide)
	decision := "no"
	if answer == Paid {
		decision = "yes"
	}
	var decided int
	err := t.persist(ctx, Again, func(ctx context.Context) (err error) {
		decided, err = t.number(ctx, decideScript, t.Keys.Item(op.Item), op.ID(), decision)
		return err
	})
	if err != nil {
		return fmt.Errorf("decide who owns item %d: %w", op.Item, err)
	}
	if answer != Paid {
		return nil
	}
	if decided == 1 {
		t.Unhint(ctx, op.Item, op.Seller)
	}
	return t.deliver(ctx, op)
}

// deliver credits the seller and ends an operation that is paid. That the operation is not ended is no error: whoever meets
// it ends it.
func (t Trade) deliver(ctx context.Context, op Operation) error {
	t.Steps.At(ctx, step.BeforeCredit)
	err := t.persist(ctx, Again, func(ctx context.Context) error {
		_, err := t.number(ctx, creditScript, t.Keys.Account(op.Seller), op.Incarnation, op.Sequence, op.Price)
		return err
	})
	if err != nil {
		return fmt.Errorf("credit user %d for item %d: %w", op.Seller, op.Item, err)
	}
	t.Steps.At(ctx, step.BeforeEnd)
	_, _ = t.number(context.WithoutCancel(ctx), endScript, t.Keys.Item(op.Item), op.ID())
	return nil
}

// persist is Persist with the worker's connections.
func (t Trade) persist(ctx context.Context, again func(error) bool, do func(context.Context) error) error {
	return Persist(ctx, t.Slots, t.Patience, again, do)
}

// run runs a script on one key.
func (t Trade) run(ctx context.Context, script *redis.Script, key string, args ...any) *redis.Cmd {
	rdb, err := t.Slots.For(ctx, key)
	if err != nil {
		cmd := redis.NewCmd(ctx)
		cmd.SetErr(err)
		return cmd
	}
	return script.Run(ctx, rdb, []string{key}, args...)
}

// number runs a script that answers a number.
func (t Trade) number(ctx context.Context, script *redis.Script, key string, args ...any) (int, error) {
	return t.run(ctx, script, key, args...).Int()
}
