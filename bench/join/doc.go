// Package join is where several processes meet that make one run together, as a rule on several load machines. Each is a
// [Member]: it registers, waits for the others at steps of the run, and hands over what it has measured. Package bench
// runs the rows.
//
// They meet in a hash under the run's prefix (see market.Keys), which a script changes for one member at a time:
//
//   - Who registers brings its settings. They have to be those of the first member.
//   - A member gives a sign of life every fifth of a time, 5 s by default. One whose sign does not change for that long, by
//     the server's clock, while another member gives five of its own, is lost, for good.
//   - A member that could give none for four fifths of that time holds its workers back ([Member.Guard]), so that nothing of
//     a process that was stopped reaches the market after the others have settled what it did.
//   - A time at which all begin is the server's. Each member computes from it a time of its own clock, by the answer to TIME
//     that took the shortest way; half of that way is how far it can be wrong. Clocks of members are never compared.
//
// The last to leave removes the keys.
package join
