// Package verify is how marketsim tells whether a way to share state is safe. The
// packages in it are ways to find out:
//
//	fault        plays what goes wrong on real servers, a scenario at a time
//	explore      goes through every schedule of a few clients on a server in memory
//	judge        does so with two copies of a program in any language
//	history      looks for an order that explains what all clients saw
//	locktest     checks and explores anybody's lock
//	markettest   checks and explores anybody's purchase
//
// The package itself has what they share: one vocabulary for what is found ([Harm],
// [KeptOut]), with its words, the [Diagram] of a schedule, and the forms in which
// findings are stored ([Faults], [Explored]). It plays nothing, and it knows no strategy.
package verify
