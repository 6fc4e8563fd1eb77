package findings_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/findings"
	"github.com/marketsim/marketsim/verify"
)

// What is stored of searches is read again, and nothing else is.
func TestExploredIsReadAgain(t *testing.T) {
	d := &verify.Diagram{Clients: []string{"Alice"}, Events: []verify.Event{{At: time.Second, Does: "GET a", Reply: "1"}}}
	res := &findings.Explorations{Schema: findings.ExplorationsSchema, Version: "v1", Searches: []findings.Exploration{
		{Scheme: "set-px", Program: "one-item", Searched: findings.Searched{Faults: 1, Schedules: 9},
			ShortestHarm: findings.ShortestHarm{Harm: verify.SoldTwice, Token: "x", Diagram: d}},
		{Scheme: "etcd", Why: "elsewhere"},
	}}

	var text bytes.Buffer
	if err := res.Write(&text); err != nil {
		t.Fatal(err)
	}

	again, err := findings.ReadExplorations(strings.NewReader(text.String()))
	if err != nil || !reflect.DeepEqual(res, again) {
		t.Errorf("%v: %+v", err, again)
	}

	for _, edit := range [][3]string{
		{`"schema": 1`, `"schema": 2`, "schema 2; this marketsim reads schema 1"},
		{`"sold twice"`, `"sold thrice"`, "unknown harm"},
		{`"token": "x"`, `"token": ""`, "has no token"},
		{`"scheme": "etcd"`, `"scheme": ""`, "of no scheme"},
		{`"schedules": 9`, `"schedules": "9"`, "explored: searches.schedules is a JSON string"},
		{`"client": 0`, `"client": 1`, "an event of client 1"},
		{`"searches"`, `"searched"`, "unknown"},
		{"\n}", "", "cut short"},
	} {
		changed := strings.Replace(text.String(), edit[0], edit[1], 1)
		if edit[0] == "\n}" {
			changed = strings.TrimSuffix(text.String(), "\n}\n")
		}

		_, err := findings.ReadExplorations(strings.NewReader(changed))
		if err == nil || !strings.Contains(err.Error(), edit[2]) {
			t.Errorf("with %s: %v, want %q", edit[1], err, edit[2])
		}
	}
}

// A judged program is played again with what was asked for, as a shell reads it.
func TestAgain(t *testing.T) {
	token := "x5/python3_" + strings.Repeat("a", 200) + "/lock/d1"
	judged := &findings.Explorations{Judged: true, Asked: []string{"--lease", "2s"}}
	one := findings.Exploration{Scheme: "python3 'my lock.py'"}
	one.Token = token
	want := "marketsim judge --lease 2s --replay " + token + " -- python3 'my lock.py'"
	if got := judged.Again(one); got != want {
		t.Errorf("a judged program is played again by %s, want %s", got, want)
	}
}
