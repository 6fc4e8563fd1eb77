package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A gate speaks to its server with a password that the programs before it do not have, so
// that whoever reaches its port may do anything there. Linux says which user has opened the
// other end of a connection within this machine, and a gate admits only its own.

// socketTables list the TCP sockets of this machine, of IPv4 and of IPv6.
var socketTables = []string{"/proc/net/tcp", "/proc/net/tcp6"}

// errUsersUnknown means that nothing tells whose a connection is.
var errUsersUnknown = errors.New("the system does not tell whose a connection is")

// UsersKnown returns an error where a gate cannot tell users apart, and admits all.
func UsersKnown() error {
	_, err := os.ReadFile(socketTables[0])
	if err != nil {
		return fmt.Errorf("%w: %w", errUsersUnknown, err)
	}
	return nil
}

// Refused are the other users who were not let through a gate.
func (p *Proxy) Refused() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.refused)
}

// admits reports whether a connection may pass: at a gate, whether it is of this user.
func (p *Proxy) admits(client net.Conn) bool {
	if !p.ownUser {
		return true
	}
	user, err := userOf(client)
	switch {
	case errors.Is(err, errUsersUnknown):
		return true // see UsersKnown
	case err != nil: // nobody is found who could be noted
		return false
	case user == os.Geteuid():
		return true
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.refused, user) {
		p.refused = append(p.refused, user)
	}
	return false
}

// userOf is the user who has opened the other end of a connection within this machine.
func userOf(conn net.Conn) (user int, err error) {
	theirs, errTheirs := netip.ParseAddrPort(conn.RemoteAddr().String())
	ours, errOurs := netip.ParseAddrPort(conn.LocalAddr().String())
	if err := errors.Join(errTheirs, errOurs); err != nil {
		return 0, err
	}

	// The table is not read at one moment: a line may be missed while others come and go.
	const tries = 5
	for range tries {
		for n, file := range socketTables {
			table, err := os.ReadFile(file)
			if err != nil && n == 0 { // without IPv6 the second one may be missing
				return 0, fmt.Errorf("%w: %w", errUsersUnknown, err)
			}
			user, found, err := userIn(string(table), theirs, ours)
			if found || err != nil {
				return user, err
			}
		}
	}
	return 0, fmt.Errorf("no socket of this machine is at %s", theirs)
}

// errClosed is returned for a connection that its other end has closed: whose that was is
// not told any more, and an older Linux says root.
var errClosed = errors.New("its other end has closed it")

// userIn looks for the socket at theirs that is connected to ours in a table.
func userIn(table string, theirs, ours netip.AddrPort) (user int, found bool, err error) {
	for line := range strings.Lines(table) {
		// The fields of a socket: its number, both addresses, the state, queues, timers,
		// retransmissions, the user, a time-out and the inode, which is 0 once it is closed.
		fields := strings.Fields(line)
		if len(fields) < 10 || !isAddress(fields[1], theirs) || !isAddress(fields[2], ours) {
			continue
		}

		if fields[9] == "0" {
			return 0, true, errClosed
		}
		user, err := strconv.Atoi(fields[7])
		return user, true, err
	}
	return 0, false, nil
}

// isAddress reports whether a word of a table is an address: words of 32 bits as this
// machine has them, and the port. A socket of IPv6 may speak IPv4.
func isAddress(word string, is netip.AddrPort) bool {
	inTable := func(ip []byte) string {
		text := ""
		for part := range slices.Chunk(ip, 4) {
			text += fmt.Sprintf("%08X", binary.NativeEndian.Uint32(part))
		}
		return fmt.Sprintf("%s:%04X", text, is.Port())
	}
	wide := is.Addr().As16()
	return word == inTable(is.Addr().Unmap().AsSlice()) || word == inTable(wide[:])
}
