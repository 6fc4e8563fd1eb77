package bench

import "github.com/HdrHistogram/hdrhistogram-go"

// nearestRank is the smallest recorded value that so many per mille of the values do not exceed, to the histogram's
// digits: the percentile by nearest rank, whose rank is rounded up. The library's own ValueAtQuantile rounds the rank
// half up, and so takes the 257th of 260 values for the 99th percentile, though 1.2% of them are larger.
func nearestRank(h *hdrhistogram.Histogram, perMille int64) int64 {
	n := h.TotalCount()
	rank := (n*perMille + 999) / 1000
	return h.ValueAtQuantile(100 * float64(rank) / float64(n)) // which rounds to rank
}
