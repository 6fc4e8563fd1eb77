package backend

import "strings"

// slots is how many hash slots a Redis Cluster has.
const slots = 16384

// Slot is the hash slot of a key on Redis Cluster: that of what stands between its first braces, if something does.
//
// Source: redis.io, cluster specification, "Key distribution model": CRC-16/XMODEM modulo 16384.
func Slot(key string) int {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			high := crc&0x8000 != 0
			if crc <<= 1; high {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % slots
}
