// Package fault shows what strategies and locks lose on a bad day. A [Scenario] is a short play for a few clients, each
// a process of its own, that are stopped, killed, cut off or set back at a chosen step or command, never by luck; the
// market is counted afterwards, and the [Finding] says what came of it.
//
// A client is a child process, because only a process can be paused or killed with everything that runs in it: a
// goroutine that is held leaves its lock's watchdog renewing (that is a scenario of its own). The child is this same
// program: its main function, or TestMain in tests, must first call [ServeChild].
//
//	func main() {
//		fault.ServeChild(subjects) // does not return in a child
//		...
//	}
//
// A Purchaser from elsewhere takes part as a [Subject] made with [Outside].
package fault
