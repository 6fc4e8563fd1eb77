package lock

import (
	"crypto/rand"
	"encoding/hex"
)

// newToken returns 128 random bits, in hexadecimal: who holds a lock. Two holders never share one.
func newToken() string {
	var bits [16]byte
	rand.Read(bits[:]) // never fails: crypto/rand.Read ends the program if the system has no randomness
	return hex.EncodeToString(bits[:])
}
