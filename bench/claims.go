package bench

// The tolerances, decided before anything was measured. They are wide, because the hardware is not the book's: they
// ask for the direction and the rough size of an effect, not for the number.
const (
	growth         = 3.0  // "grows with load": at 5x5 at least this many times the value at 1x1
	retriesPer1000 = 1.0  // "no retries": at most this many per 1,000 purchases (the book has <10 in 13,000)
	within         = 0.20 // "close to", "about the same"
	shortWaitMS    = 3.0  // "the wait stays low"
)

// claim is one statement of the book about its tables. measure returns what the rows show, in words, and whether the
// claim holds; an error says why it cannot be judged.
type claim struct {
	text, published, tolerance string
	measure                    func(evidence) (measured string, holds bool, err error)
}

// bookClaims are the claims of results/reference/SOURCES.md, in its order. The published numbers are those of
// results/reference/published.csv; a test compares them.
var bookClaims = []claim{
	{
		text:      "watch: retries per purchase grow with load",
		published: "2.96 at 1x1, more than 268 at 5x5 (the book's text: about 250)",
		tolerance: "at 5x5 at least 3 times the retries per purchase of 1x1",
		measure:   watchRetriesGrow,
	}, {
		text:      "watch: the wait for a purchase grows with load",
		published: "14 ms at 1x1, 498 ms at 5x5",
		tolerance: "at 5x5 at least 3 times the mean wait of 1x1",
		measure:   watchWaitGrows,
	}, {
		text:      "coarse: purchases need no retries",
		published: "0 per 1,000 purchases at 1x1, fewer than 0.77 at 5x1, 0 at 5x5",
		tolerance: "at most 1 retry per 1,000 purchases in every mix",
		measure:   func(e evidence) (string, bool, error) { return noRetries(e, "coarse") },
	}, {
		text:      "coarse: listed to bought is close to listers to buyers",
		published: "listed/bought 1.02 at 1x1, 5.23 at 5x1, 1.02 at 5x5",
		tolerance: "listed/bought within 20% of listers/buyers in every mix",
		measure:   coarseFollowsMix,
	}, {
		text:      "fine: purchases need no retries",
		published: "0 per 1,000 purchases at 1x1, 0 at 5x1, 0 at 5x5",
		tolerance: "at most 1 retry per 1,000 purchases in every mix",
		measure:   func(e evidence) (string, bool, error) { return noRetries(e, "fine") },
	}, {
		text:      "fine: more purchases than coarse",
		published: "2.20 times at 1x1, 2.77 times at 5x1, 5.41 times at 5x5",
		tolerance: "more purchases per second than coarse in every mix",
		measure:   fineBuysMore,
	}, {
		text:      "fine: listings plus purchases are about the same in every mix",
		published: "3717 a second at 1x1, 3800 at 5x1, 3783 at 5x5",
		tolerance: "listings plus purchases per second of every mix within 20% of the mean of the three",
		measure:   fineTotalsAlike,
	}, {
		text:      "fine: the wait stays low under full load",
		published: "less than 3 ms at 5x5; coarse 14 ms, watch 498 ms",
		tolerance: "mean wait at 5x5 below 3 ms, and below those of coarse and watch",
		measure:   fineWaitStaysLow,
	},
}

// Judge says of each of the book's eight claims whether the rows bear it out. A claim is not judged (Holds is nil,
// Measured says why) when a row it needs is missing, not complete or without an audit that found the market right, or
// when the rows were not measured on a real server. Trials of a row are pooled.
func Judge(m Manifest, rows []Row) []Claim {
	judged := make([]Claim, 0, len(bookClaims))
	for i, c := range bookClaims {
		out := Claim{ID: i + 1, Text: c.text, Published: c.published, Tolerance: c.tolerance}
		measured, holds, err := c.measure(evidence{manifest: m, rows: rows})
		if err != nil {
			out.Measured = err.Error()
		} else {
			out.Measured, out.Holds = measured, &holds
		}
		judged = append(judged, out)
	}
	return judged
}
