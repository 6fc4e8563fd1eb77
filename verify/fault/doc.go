// Package fault shows what strategies and locks lose when a client, a server or the network between them fails. In a
// [Scenario] a few clients buy the same item, and one of them is stopped, killed, cut off or given a wrong clock at a
// chosen step or command, never by luck. Afterwards every coin and item is counted. A [verify.Finding] holds two
// answers: what is wrong with coins and items, and how long others were kept out. Both are observed; what a lock
// declares decides which scenarios apply to it and whether it broke a promise, and nothing else.
//
// A client is a child process, because only a process can be paused or killed with everything that runs in it. (A
// goroutine that is held leaves its lock's watchdog renewing: that is a scenario of its own.) The child is this same
// program, so its main function, or TestMain in tests, must first call [ServeChild].
//
// # What strategies and locks must say
//
// Scenarios hold a client at the steps that its strategy and lock pass to their step.Observer; each call blocks while
// the client is held. A strategy calls step.Between, step.Acquired, step.Read, step.BeforeWrite, step.Written and
// step.BeforeRelease where it has them. A lock must call step.Waiting each time it was found held and the worker is
// about to wait: a scenario knows by this alone that the lock keeps a client out, and is not played if it is
// missing. A lock calls step.Looked between a look at its state and what depends on that look, and step.Half between
// the two commands of an acquisition, if it has such points; scenarios that strike there do not apply to other locks.
package fault
