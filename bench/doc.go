// Package bench measures: it loads a market with sellers and buyers and records what each operation cost.
//
// [Run] measures one row, which a [Config] describes: a strategy under a mix of sellers and buyers. A seller mints
// items in batches and lists each; a buyer browses listings and orders each at the price it saw. Minting and browsing
// are not measured. A [Worker] owns its connection, its Purchaser, its counters and its ledger, and hands its times to the
// row's collector through a ring of its own (collector.go), so that workers share no lock, and nothing is printed or
// allocated by the driver between two operations.
//
// A [Config] may have a workload other than the book's: few items that circulate (hot.go), items that are listed
// beforehand (stock.go), other work between an operation's reads and its write, and replies that come late as over a
// network (workload.go).
//
// A row may have several markets, on several servers (markets.go, nodes.go). On Redis Cluster its workers follow a slot that
// moves; where a master is gone the row ends.
//
// Counted are the operations started between the end of the warm-up and the end of the row, each followed to its end:
// an operation in flight when time is up is finished and counted, so that long waits are not cut out of the
// distribution. After the drain the market is audited against the workers' ledgers and removed.
//
// What a purchase costs is counted where it arises: commands, round trips and bytes at the buyers' connections, CPU time
// by the server itself and by this process, the parts of its time by the strategy (see market.Receipt). A row whose
// number is this process's and not Redis's says so (saturation.go), and so does one whose times do not fit its
// throughput.
//
// [Judge] compares measured rows with the claims of Redis in Action. What is measured is a result.Row: package
// bench/result stores it, and bench/report makes tables of it.
package bench
