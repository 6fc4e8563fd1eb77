// Package sweep says what the rounds of a sweep come to: at each point which strategies none is known to beat and what
// the worst choice costs, and where one strategy passes another along an axis. It reads stored results and nothing in it
// measures; what is known about two strategies at a point is for package compare. [ParseAxis] reads how an axis is written.
//
// A sentence of [Analyse] is said only where intervals that all hold at once with 95% bear it out. A crossing is
// therefore not a number but a stretch of the axis: at its one end one strategy is known to be faster, at the other end
// the other, and between them it is not decided or nothing was measured. A line drawn through medians would cross at a
// number, and the number would look surer than it is.
package sweep
