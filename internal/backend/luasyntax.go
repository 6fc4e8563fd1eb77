package backend

import (
	"bufio"
	"bytes"
	"errors"
	"strings"

	"github.com/alicebob/miniredis/v2/server"
)

// CheckLua returns why a script cannot be parsed, with the line; nil: it can. Nothing runs.
func CheckLua(script string) error {
	if strings.HasPrefix(script, "#!") { // which only a server reads
		script = "--" + script
	}

	m := Memory()
	defer m.Close()
	var reply bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&reply))
	m.Server().Dispatch(peer, []string{"SCRIPT", "LOAD", script})
	peer.Flush()

	refused, is := strings.CutPrefix(reply.String(), "-")
	if !is {
		return nil
	}
	_, why, _ := strings.Cut(refused, "user_script")
	return errors.New(strings.Join(strings.Fields(why), " "))
}
