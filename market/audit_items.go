package market

import (
	"context"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// readItems notes where every item lies.
func (a *auditor) readItems(ctx context.Context, rdb redis.Cmdable, keys Keys) error {
	for user := UserID(1); user <= UserID(a.opening.Accounts); user++ {
		err := scan(ctx, func(cursor uint64) *redis.ScanCmd {
			return rdb.SScan(ctx, keys.Inventory(user), cursor, "", chunk)
		}, 1, func(item string) {
			id, err := strconv.ParseInt(item, 10, 64)
			if err != nil {
				a.itemProblem(0, "%s holds %q, which is not an item", place(user), item)
				return
			}
			a.see(ItemID(id), place(user))
		})
		if err != nil {
			return err
		}
	}
	return scan(ctx, func(cursor uint64) *redis.ScanCmd {
		return rdb.ZScan(ctx, keys.Market(), cursor, "", chunk)
	}, 2, func(member string) {
		id, seller, err := ParseMember(member)
		switch {
		case err != nil:
			a.itemProblem(0, "%v", err)
		case seller < 1 || seller > UserID(a.opening.Accounts):
			a.itemProblem(id, "item %d is listed by user %d, who has no account", id, seller)
		default:
			a.see(id, -place(seller))
		}
	})
}

// scan follows a cursor to its end and calls see with every stride-th element. An element may come twice.
func scan(ctx context.Context, page func(cursor uint64) *redis.ScanCmd, stride int, see func(string)) error {
	for cursor := uint64(0); ; {
		elements, next, err := page(cursor).Result()
		if err != nil {
			return err
		}
		for i := 0; i < len(elements); i += stride {
			see(elements[i])
		}
		if cursor = next; cursor == 0 {
			return ctx.Err()
		}
	}
}

// see notes that an item lies at a place. The same place twice is how SCAN works, not a double.
func (a *auditor) see(id ItemID, at place) {
	switch {
	case a.minter(id) == 0:
		a.itemProblem(id, "item %d lies in %s but was never minted", id, at)
	case a.found[id] == 0:
		a.found[id] = at
	case a.found[id] != at:
		a.itemProblem(id, "item %d is in two places: %s and %s", id, a.found[id], at)
	}
}

// judgeItems compares where each item lies with where the ledgers say it should.
func (a *auditor) judgeItems() {
	for id := ItemID(1); int(id) < len(a.found); id++ {
		minter, buyer, at := a.minter(id), a.buyer(id), a.found[id]
		if minter == 0 || a.bad[id] {
			continue
		}
		switch {
		case at == 0:
			a.itemProblem(id, "item %d of user %d is nowhere", id, minter)
		case buyer != 0 && at != buyer:
			a.itemProblem(id, "item %d was bought by user %d but lies in %s", id, buyer, at)
		case buyer == 0 && a.listed.has(id) && at != -minter:
			a.itemProblem(id, "item %d was listed by user %d and bought by nobody but lies in %s", id, minter, at)
		case buyer == 0 && !a.listed.has(id) && at != minter:
			a.itemProblem(id, "item %d of user %d was neither listed nor bought but lies in %s", id, minter, at)
		default:
			a.verdict.Items++
		}
	}
}

// judgeFunds compares each account with what the ledgers say.
func (a *auditor) judgeFunds(ctx context.Context, rdb redis.Cmdable, keys Keys) error {
	for first := 1; first <= a.opening.Accounts; first += chunk {
		var replies []redis.Cmder
		_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for id := first; id < first+chunk && id <= a.opening.Accounts; id++ {
				replies = append(replies, p.HGet(ctx, keys.User(UserID(id)), "funds"))
			}
			return nil
		})
		if err != nil && err != redis.Nil {
			return err
		}
		for i, reply := range replies {
			a.judgeAccount(first+i, reply.(*redis.StringCmd))
		}
	}
	return nil
}

func (a *auditor) judgeAccount(id int, reply *redis.StringCmd) {
	funds, err := reply.Int64()
	expected := a.opening.Funds + a.deltas[id]
	switch {
	case err != nil:
		a.moneyProblem("account of user %d has no readable funds (%v)", id, err)
		return
	case funds != expected:
		a.moneyProblem("account of user %d holds %d coins, and should hold %d (%+d)", id, funds, expected, funds-expected)
	case funds < 0:
		a.moneyProblem("account of user %d is overdrawn: %d coins", id, funds)
	}
	a.verdict.Funds += funds
}
