package wire_test

import (
	"slices"
	"testing"

	"github.com/marketsim/marketsim/internal/wire"
)

func TestKeys(t *testing.T) {
	for _, test := range []struct {
		command string
		args    []string
		keys    []string
		known   bool
	}{
		{"SET", []string{"k", "v", "NX"}, []string{"k"}, true},
		{"del", []string{"a", "b"}, []string{"a", "b"}, true},
		{"EVAL", []string{"return 1", "1", "k"}, nil, true},
		{"PSUBSCRIBE", []string{"news*"}, []string{"channels"}, true},
		{"PUBLISH", []string{"news", "text"}, []string{"channels"}, true},
		{"RENAME", []string{"a", "b"}, []string{"a"}, false},
		{"FLUSHALL", nil, nil, false},
		{"SCRIPT", []string{"LOAD", "return 1"}, []string{"LOAD"}, false},
	} {
		keys, known := wire.KeysOf(test.command, test.args)
		if !slices.Equal(keys, test.keys) || known != test.known {
			t.Errorf("%s %q names %q, known: %t; want %q, %t",
				test.command, test.args, keys, known, test.keys, test.known)
		}
	}
}

// What is not whole is left for later.
func TestCommands(t *testing.T) {
	commands, rest := wire.Commands("*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*2\r\n$3\r\nGET\r\n$1")
	isGet := slices.Equal(commands[1], []string{"get", "k"})
	if len(commands) != 2 || commands[0][0] != "ping" || !isGet {
		t.Errorf("the commands are %q", commands)
	}
	if rest != "*2\r\n$3\r\nGET\r\n$1" {
		t.Errorf("the rest is %q", rest)
	}
}
