// Package compare says what is known about the difference between rows, and no more: medians with intervals, and one of
// the words faster, slower, no difference and not decided. It reads stored results, and nothing in it measures.
//
// # Strategies, measured in the same rounds
//
// In a round every row is measured once, in an order of its own, so what slows the machine down for a while hits both
// rows of a pair alike. [Rounds] therefore divides inside a round, and takes the median of these ratios. The interval of
// that median assumes only that rounds are independent of each other. With m pairs it has a confidence of 1-0.05/m, so
// that with 95% all of them hold at once (Bonferroni).
//
// The number of rounds is fixed before the first. Who measures until a difference appears will find one: rounds that
// were cut short decide nothing, and more rounds are a new run.
//
// How much that finds, tried on testdata/rounds.csv: 60 rounds of a strategy against itself, with rows of 1 s, on 2 CPUs
// that other programs kept busy, so that the ratio varies by 13%. Of 1,000 random splits, at most 5% are called faster or
// slower, whatever the number of rounds. A slowdown of 10% is found in 47% by 9 rounds, in 80% by 18 and in 86% by 21.
// Longer rows on a quiet machine need fewer.
//
// # Two stored runs
//
// Runs made at different times share no rounds. [Stored] says that they differ only where the intervals of their medians
// are disjoint, and what else differs between the runs comes first.
package compare
