//go:build !race

package testkit

// Raced says that the race detector is on, which makes everything many times slower.
const Raced = false
