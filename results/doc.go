// Package results is what came out: measurements and findings that are kept, and the numbers that others published
// (package reference). README.md says how each folder was made and how to read it.
//
// Stored are run.json and faults.json, what go test -bench printed (bench.txt), and a README a folder. What can be
// drawn from them is not stored: 'marketsim report DIR' draws it. Tables in README.md, docs/ and the READMEs here that
// show stored numbers stand between two comments, "<!-- from FOLDER -->" and "<!-- end -->"; a test compares them with
// the folder.
//
// Who adds or changes a scenario, a lock, a strategy, a flag or a column runs
//
//	go generate ./results
//
// on a machine with redis-server, ZooKeeper and etcd. It takes some minutes and makes again, in this order: the table
// of faults; the golden files of reports and of the command's lists and help; the tables and verdicts in README.md and
// docs/. 'go test ./results -update' makes only the last, in a second.
package results

//go:generate go run ../cmd/marketsim faults --out faults --force
//go:generate go test ../bench/report ../cmd/marketsim -run Golden -update
//go:generate go test . -update
