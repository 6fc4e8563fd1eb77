// Package chaos strikes a market with random faults while sellers and buyers trade in it: it cuts, slows and resets
// their connections, kills and stops the server, and holds clients in the middle of an operation, as a long pause of a
// garbage collector would. Then it heals all of it, so that the market can be audited at rest, and strikes again.
//
// Which faults strike, when and for how long is drawn from a seed by [Plan.Schedule], a pure function: the same seed
// gives the same schedule. What becomes of it does not follow from the seed alone, because clients and servers run at
// their own pace.
//
// A [Setup] is the private redis-server and the proxies through which workers reach it. [Setup.Run] runs a row on it
// with the market, the workers and the recorders of package bench; the nemesis strikes them as the schedule says.
//
// A client-pause holds a goroutine at a step: a watchdog of the same lock goes on renewing it. A process-pause stops a
// child process, in which every second worker of a role works, with all that renews its locks. What these workers do is
// recorded here, where their operations are called; the child is this program, see [ServeChild].
package chaos
