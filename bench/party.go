package bench

import (
	"github.com/marketsim/marketsim/bench/result"
	"github.com/marketsim/marketsim/market"
)

// party is the part of a row's load that this process makes, where several share the row. Config.Mix, Wallets and Browsers
// are those of one of them. The zero value is the whole.
type party struct {
	index, of int
	lost      []int // those who are gone with their ledgers, when the market is audited
	minted    market.ItemID
}

// size is how many processes share the row.
func (p party) size() int { return max(1, p.of) }

// whole is the row's mix, of all processes.
func (c Config) whole() result.Mix {
	return result.Mix{Sellers: c.party.size() * c.Mix.Sellers, Buyers: c.party.size() * c.Mix.Buyers}
}

// lostAccounts are those of the processes that are gone; nil: none is.
func (c Config) lostAccounts() *market.Lost {
	if len(c.party.lost) == 0 {
		return nil
	}
	lost := &market.Lost{Items: c.party.minted}
	for _, index := range c.party.lost {
		of := c
		of.party.index = index
		for i := range c.Mix.Sellers {
			lost.Accounts = append(lost.Accounts, of.account(Seller, i))
		}
		for i := range c.wallets() {
			lost.Accounts = append(lost.Accounts, of.account(Buyer, i))
		}
	}
	return lost
}

// stream tells the random numbers of a worker from those of all others of the row.
func (p party) stream(worker int) uint64 { return uint64(p.index)<<32 | uint64(worker) }
