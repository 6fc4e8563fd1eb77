// Package verify has the words for what can go wrong where state is shared: the [Harm] to
// money, items or a lock, how long others were kept out ([KeptOut]), the [Verdict] on both,
// and the [Diagram] of a schedule. It plays nothing, and knows no strategy.
//
// The packages below it are ways to find out:
//
//	explore      goes through every schedule of a few clients on a server in memory
//	locktest     checks and explores anybody's lock
//	markettest   checks and explores anybody's purchase
//
// The command has three more: scenarios on real servers (marketsim faults), schedules of
// a program in any language (judge), and an order that explains what all clients saw (check).
package verify
