package reference

import (
	"encoding/csv"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/marketsim/marketsim/results"
)

// A Library is a lock that people use, and what marketsim knows of it.
type Library struct {
	Name   string   // with what it depends on, as in "redsync, one server"
	Source string   // the number of its source in docs/libraries.md; may be empty
	Names  []string // by which people ask for it
	Scheme string   // how it locks
	Known  string   // marketsim's name for the scheme, in words; a name stands between backticks
	Code   string   // whose code was run

	// A scenario that breaks the scheme, and the lock with which it is played.
	Scenario, Lock string
}

// Libraries are the rows of libraries.csv, in their order.
func Libraries() (all []Library) {
	for _, row := range rowsOf(results.LibrariesCSV) {
		all = append(all, Library{
			Name: row[0], Source: row[1], Names: strings.Split(row[2], ";"), Scheme: row[3],
			Known: row[4], Code: row[5], Scenario: row[6], Lock: row[7],
		})
	}
	return all
}

// Under is Known with a strategy before each name, as in "fine:".
func (l Library) Under(strategy string) string {
	parts := strings.Split(l.Known, "`")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = strategy + parts[i]
	}
	return strings.Join(parts, "`")
}

// LibrariesNamed are the libraries that somebody may mean by a name.
func LibrariesNamed(name string) []Library {
	return slices.DeleteFunc(Libraries(), func(l Library) bool { return !means(name, append(l.Names, l.Name)) })
}

// A JudgedProgram is a program that 'marketsim judge' has judged.
type JudgedProgram struct {
	Name     string // of its folder in results/judged
	Names    []string
	Library  string // what it is made with, and in which version
	Opened   string // how, and what of it was set otherwise than its documentation tells
	Explored string // what was found, as explored.json has it
}

// JudgedPrograms are the rows of judged/programs.csv with what was found.
func JudgedPrograms() (all []JudgedProgram) {
	programs, _ := results.Judged.ReadFile("judged/programs.csv") // cannot fail: it is a part of this program
	for _, row := range rowsOf(string(programs)) {
		found, _ := results.Judged.ReadFile(path.Join("judged", row[0], "explored.json"))
		all = append(all, JudgedProgram{
			Name: row[0], Names: strings.Split(row[1], ";"), Library: row[2], Opened: row[3], Explored: string(found),
		})
	}
	return all
}

// JudgedProgramsNamed are the programs that somebody may mean by a name.
func JudgedProgramsNamed(name string) []JudgedProgram {
	return slices.DeleteFunc(JudgedPrograms(), func(p JudgedProgram) bool {
		return !means(name, append(p.Names, p.Name))
	})
}

func rowsOf(text string) [][]string {
	rows, _ := csv.NewReader(strings.NewReader(text)).ReadAll() // cannot fail: tests read all of these files
	return rows[1:]
}

// means reports whether what was typed is one of the names: "redis py", "RedisPy" and
// "redis-py" are the same.
func means(typed string, names []string) bool {
	const longest = 200 // no name is nearly as long
	if len(typed) > longest {
		return false
	}

	typed = letters(typed)
	return typed != "" && slices.ContainsFunc(names, func(name string) bool { return letters(name) == typed })
}

// letters is a name without what people write differently: case, and all that is neither
// letter nor digit.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
}
