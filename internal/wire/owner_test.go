package wire

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"
)

// A table of sockets says whose a connection is, of IPv4 and of IPv6, and not whose it was.
func TestUserIn(t *testing.T) {
	const heading = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

	line := func(theirs, ours string, user, inode int) string {
		return fmt.Sprintf("   7: %s %s 01 00000000:00000000 00:00000000 00000000 %5d        0 %d 1 0 20 4 30 10 -1\n",
			theirs, ours, user, inode)
	}

	const theirs, ours = "0100007F:9C40", "0100007F:1F90" // on a machine that is little-endian
	const mapped = "0000000000000000FFFF0000"

	for name, c := range map[string]struct {
		table string
		user  int
		found bool
		err   error
	}{
		"another user's":       {line(theirs, ours, 65534, 12), 65534, true, nil},
		"root's":               {line(theirs, ours, 0, 12), 0, true, nil},
		"this end of it":       {line(ours, theirs, 7, 12), 0, false, nil},
		"of another port":      {line("0100007F:9C41", ours, 7, 12), 0, false, nil},
		"closed, as if root's": {line(theirs, ours, 0, 0), 0, true, errClosed},
		"IPv4 by IPv6":         {line(mapped+theirs, mapped+ours, 1000, 12), 1000, true, nil},
	} {
		user, found, err := userIn(heading+c.table,
			netip.MustParseAddrPort("127.0.0.1:40000"), netip.MustParseAddrPort("127.0.0.1:8080"))
		if user != c.user || found != c.found || !errors.Is(err, c.err) {
			t.Errorf("%s: user %d, found: %v, %v", name, user, found, err)
		}
	}
}

// gateOfNothing is a gate before what accepts connections and says "here".
func gateOfNothing(t *testing.T) *Proxy {
	t.Helper()
	gate, err := StartGate(func() (net.Conn, error) {
		client, server := net.Pipe()
		go func() {
			_, _ = server.Write([]byte("+here\r\n"))
		}()
		t.Cleanup(func() {
			server.Close()
		})
		return client, nil
	})

	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = gate.Close() })
	return gate
}

// hears is what is said on a connection to a gate that begin makes.
func hears(t *testing.T, gate *Proxy, begin func(addr string) (net.Conn, error)) string {
	t.Helper()
	c, err := begin(gate.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	said := make([]byte, 100)
	n, _ := c.Read(said) // an error: it was closed
	return strings.TrimSpace(string(said[:n]))
}

// A gate admits whoever runs as this user.
func TestGateAdmitsItsUser(t *testing.T) {
	gate := gateOfNothing(t)
	said := hears(t, gate, func(addr string) (net.Conn, error) {
		return net.Dial("tcp", addr)
	})
	if said != "+here" || len(gate.Refused()) > 0 {
		t.Errorf("this user hears %q, and %v were refused", said, gate.Refused())
	}
}

// Without a table of sockets a gate admits all users, and says so.
func TestGateWithoutATable(t *testing.T) {
	tables := socketTables
	t.Cleanup(func() { socketTables = tables })
	socketTables = []string{os.DevNull + "/tcp", os.DevNull + "/tcp6"}

	if err := UsersKnown(); !errors.Is(err, errUsersUnknown) {
		t.Errorf("it is said that %v", err)
	}

	gate := gateOfNothing(t)
	said := hears(t, gate, func(addr string) (net.Conn, error) {
		return net.Dial("tcp", addr)
	})
	if said != "+here" {
		t.Errorf("a user hears %q", said)
	}
}
