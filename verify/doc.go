// Package verify is how marketsim tells whether a way to share state is safe, and its rooms are the ways to find out:
//
//	fault        plays what goes wrong on real servers, a scenario at a time
//	explore      goes through every schedule of a few clients on a server in memory
//	history      looks for an order that explains what all clients saw
//	locktest     checks and explores a lock of anybody's
//	markettest   checks and explores a purchase of anybody's
//
// The package itself has what they share: one vocabulary for what is found ([Harm], [KeptOut]), with its words, the
// [Diagram] of a schedule, and the forms in which findings are stored ([Faults], [Explored]). It plays nothing, and it
// knows no strategy.
package verify
