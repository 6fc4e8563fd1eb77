package verify_test

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/verify"
)

// What is stored of searches is read again, and nothing else is.
func TestExploredIsReadAgain(t *testing.T) {
	d := &verify.Diagram{Clients: []string{"Alice"}, Events: []verify.Event{{At: time.Second, Does: "GET a", Reply: "1"}}}
	res := &verify.Explorations{Schema: verify.ExploredSchema, Version: "v1", Searches: []verify.Explored{
		{Scheme: "set-px", Program: "one-item", Faults: 1, Schedules: 9, Harm: verify.SoldTwice, Token: "x", Diagram: d},
		{Scheme: "etcd", Why: "elsewhere"},
	}}
	var text bytes.Buffer
	if err := res.Write(&text); err != nil {
		t.Fatal(err)
	}
	again, err := verify.ReadExplored(strings.NewReader(text.String()))
	if err != nil || !reflect.DeepEqual(res, again) {
		t.Errorf("%v: %+v", err, again)
	}
	for _, edit := range [][3]string{
		{`"schema": 1`, `"schema": 2`, "schema 2; this marketsim reads schema 1"},
		{`"sold twice"`, `"sold thrice"`, "unknown harm"},
		{`"token": "x"`, `"token": ""`, "has no token"},
		{`"scheme": "etcd"`, `"scheme": ""`, "of no scheme"},
		{`"client": 0`, `"client": 1`, "an event of client 1"},
		{`"searches"`, `"searched"`, "unknown"},
		{"\n}", "", "cut short"},
	} {
		changed := strings.Replace(text.String(), edit[0], edit[1], 1)
		if edit[0] == "\n}" {
			changed = strings.TrimSuffix(text.String(), "\n}\n")
		}
		_, err := verify.ReadExplored(strings.NewReader(changed))
		if err == nil || !strings.Contains(err.Error(), edit[2]) {
			t.Errorf("with %s: %v, want %q", edit[1], err, edit[2])
		}
	}
}
