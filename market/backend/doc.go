// Package backend says where a market runs, and connects to it.
//
// [Start] chooses a [Server]: the user's own by URL, else the first of a list of starters that can start one: a
// private process ([Local]), a container (package container), or miniredis inside this process (package
// embedded). [ParseURL] reads a URL into a [Target] that never shows its password. [Preflight] says before the
// load whether the server will do, and [Explain] what to do about a refusal. Tests get their servers from
// package backendtest.
//
// # Why Dial is the only way to connect
//
// Every go-redis client of marketsim comes from [Dial], because go-redis's defaults suit a web application, and
// would make a benchmark of locks lie:
//
//   - MaxRetries -1: by default go-redis sends a command again after its reply was lost. A purchase is then made
//     twice and reported once, and SET NX answers "held" about one's own token. Here every command runs at most
//     once, and a lost reply is an error of unknown outcome.
//   - DialerRetries 1: by default a failed connection is tried 5 times, and a stopped server looks like a slow one.
//   - PoolSize 1 and PipelinePoolSize -1: one worker is one connection, as one process is in the book. By default
//     pipelines use a second pool, and a client used inside its own Watch quietly takes a second connection,
//     outside the transaction; here it waits for itself, and times out.
//   - ContextTimeoutEnabled: by default a context's deadline does not end a command that waits for its reply. Its
//     cancellation does not even so, which is why blocking commands wait in slices.
//   - No idle time-out, no lifetime, no idle connections kept ready: connections come and go only when something
//     happened. One that the server closed while it was idle is still noticed before a command is written to it.
//   - No CLIENT SETINFO and no maintenance notifications: a handshake is HELLO and nothing else.
//
// The connection's [Stats] count commands, round trips and bytes below every strategy, so that none has to count
// for itself and none can forget.
package backend
