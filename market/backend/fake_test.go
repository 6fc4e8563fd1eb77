package backend_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/market/backend"
)

// fakeRedis answers each command by its name with a reply in Redis's protocol, PING with PONG, and any other with
// an error.
func fakeRedis(t *testing.T, replies map[string]string) backend.Target {
	return listen(t, func(c net.Conn) {
		go func() {
			r := bufio.NewReader(c)
			for {
				args, err := readCommand(r)
				if err != nil {
					return
				}
				reply, ok := replies[strings.ToLower(strings.Join(args, " "))]
				switch {
				case ok:
				case strings.EqualFold(args[0], "ping"):
					reply = "+PONG\r\n"
				default:
					reply = "-ERR unknown command\r\n"
				}
				if _, err := io.WriteString(c, reply); err != nil {
					return
				}
			}
		}()
	})
}

func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, '*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(r, '$')
		if err != nil {
			return nil, err
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(r, arg); err != nil {
			return nil, err
		}
		args[i] = string(arg[:size])
	}
	return args, nil
}

func readLength(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("got %q, want a line that starts with %q", line, kind)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// bulk spells a string in Redis's protocol.
func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
