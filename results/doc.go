// Package results is what came out: measurements and findings that are kept, and the
// numbers that others published (package reference). README.md says how each folder
// was made and how to read it.
//
// Stored are run.json, faults.json, explored.json, features.csv and libraries.csv. What
// can be drawn from them is not stored: 'marketsim report DIR' draws it. Tables in
// README.md and docs/ that show stored numbers stand between two comments, "<!-- from
// FOLDER -->" and "<!-- end -->"; a test compares them with the folder.
//
// After a change of scenarios, locks or strategies 'go generate ./results' plays the
// cells that the table of faults lacks, or in which a promise was broken, keeps those
// that this machine cannot play, explores schemes for which the same is true, and writes
// what README.md and docs/ show. 'go test ./results -update' does only the last. What takes
// hours is done by 'go generate ./cmd/marketsim': searches with two faults.
package results

import "embed"

// FeaturesCSV is features.csv: what is published about each lock, and beside that what was
// observed, each yes or no. "-" means that nobody said or saw it. A test plays what can
// be played, and takes the rest from the table of faults.
//
//go:embed features.csv
var FeaturesCSV string

// FaultsJSON is the table of faults, and ExploredJSON what searches of every schedule found.
//
//go:embed faults/faults.json
var FaultsJSON string

//go:embed explored/explored.json
var ExploredJSON string

// LibrariesCSV owns what is known of each library's lock. A test writes the table of
// docs/libraries.md from it.
//
//go:embed libraries.csv
var LibrariesCSV string

// Judged is the folder judged: what was found in each program, and programs.csv, which
// says which library each is about.
//
//go:embed judged/programs.csv judged/*/explored.json
var Judged embed.FS

//go:generate go test . -run ^TestEachLockHasALine$
//go:generate go run ../cmd/marketsim faults --add faults
//go:generate go test ../cmd/marketsim -run ^TestCatalogue$ -timeout 60m -update
//go:generate go test ../cmd/marketsim -run ^TestTwoFaults$ -update -within 0s
//go:generate go test . -update
