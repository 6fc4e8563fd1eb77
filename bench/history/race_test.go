//go:build race

package history

// raced says that the race detector is on, which makes everything many times slower.
const raced = true
