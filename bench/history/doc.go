// Package history records what each client of a market did, which answer it got, and when; and it judges the record: is
// there an order of these operations, one after the other, that explains every answer?
//
// # Recording
//
// [Create] opens a folder, [Writer.Worker] gives each worker a [Recorder] with a file of its own, and [Writer.Finish]
// adds what the market held when every worker had stopped. Recording shares nothing and allocates nothing, and writes a
// record only after the time of the operation's end was read.
//
// A history is a file history.jsonl, with the opening of the market, the files of the workers and what was found at the
// end, and for each worker a file worker-<n>-<role>.jsonl. Each is JSON lines: a header, one record per line, and a
// last line with the number of lines before it. Times are nanoseconds on the monotonic clock since the row began:
//
//	{"op":"mint","start":1200,"end":90100,"first":1,"user":1,"outcome":"applied"}
//	{"op":"list","start":95000,"end":99000,"item":17,"seller":1,"price":40,"outcome":"refused","reason":"not_owned"}
//	{"op":"purchase","start":120,"end":121,"item":17,"seller":1,"buyer":6,"price":40,"outcome":"unknown","error":"EOF"}
//	{"op":"hold","name":"17","called":1,"acquired":2,"releasing":3,"released":4,"fence":7}
//
// [Read] refuses with [ErrDamaged] a history that was cut short, as by a killed run, or that mixes files of several:
// then there is no verdict. It does not notice every edit.
//
// # Checking
//
// [Check] judges five parts, each by itself:
//
//   - items: everything that happened to each item, minted, listed and sold, against porcupine;
//   - accounts: the opening, the sales and the purchases of each account against what it holds at the end;
//   - funds in order: of an account that could run out, that every order was paid for with coins it had;
//   - locks: that no two held one lock at a time;
//   - tokens: that fencing tokens grow.
//
// An operation whose reply was lost may have been applied at any later time, or never. That a purchase changes an item
// and two accounts at the same instant is not checked: each item and account is an object of its own here.
package history
