// Package chaos strikes a market with random faults while sellers and buyers trade in it: it cuts, slows and resets their
// connections, kills and stops the server, and holds clients in the middle of an operation, as a long pause of a
// garbage collector would. Then it heals all of it, so that the market can be audited at rest, and strikes again.
//
// Which faults strike, when and for how long is drawn from a seed by [Plan.Rounds], a pure function: the same seed gives
// the same schedule. What becomes of it does not follow from the seed alone, because clients and servers run at their own
// pace.
//
// An [Arena] is the private redis-server and the proxies through which workers reach it; a [Storm] carries out a schedule in
// it. Package bench knows a Storm by the interface bench.Storm, so that importing bench does not import the proxies.
//
// A client that is paused here is a goroutine held at a step: a watchdog of the same lock goes on renewing it. Stopping a whole
// client, watchdog included, takes a process of its own: that is what the scenarios of 'marketsim faults' do.
package chaos
