package wire

import "testing"

func TestRepliesOfPipelinedSubscriptions(t *testing.T) {
	var a answers
	last := &Trap{}
	a.expect(command{name: "subscribe", args: []string{"a", "b"}}, nil)
	a.expect(command{name: "subscribe", args: []string{"c"}}, nil)
	a.expect(command{name: "ping"}, []*Trap{last})
	confirmation := reply{kind: '*', size: 3, first: "subscribe"}
	for i, r := range []reply{confirmation, confirmation, {kind: '*', size: 3, first: "message"}, confirmation} {
		if traps, message := a.take(r); len(traps) > 0 || message != (r.first == "message") {
			t.Errorf("reply %d: traps %v, message %v", i, traps, message)
		}
		if want := []int{3, 2, 2, 1}[i]; len(a.queue) != want {
			t.Errorf("after reply %d, %d commands wait, want %d", i, len(a.queue), want)
		}
	}
	if traps, _ := a.take(reply{kind: '*', size: 2, first: "pong"}); len(traps) != 1 || traps[0] != last {
		t.Errorf("the reply to PING belongs to %v", traps)
	}
}

func TestRefusedSubscriptionIsAnsweredOnce(t *testing.T) {
	var a answers
	a.expect(command{name: "subscribe", args: []string{"a", "b"}}, nil)
	if a.take(reply{kind: '-'}); len(a.queue) != 0 {
		t.Errorf("%d commands wait after an error", len(a.queue))
	}
}
