package wire

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unread is how many bytes have come on a connection, and nobody has read them yet.
func unread(c net.Conn) (n int) {
	ofSocket(c, func(fd int) { n, _ = unix.IoctlGetInt(fd, unix.SIOCINQ) })
	return n
}

// backlog is how many connections a listener has not accepted yet.
func backlog(l net.Listener) (n int) {
	ofSocket(l, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			n = int(info.Unacked) // which is the backlog while a socket listens
		}
	})
	return n
}

// ofSocket calls do with the file of a socket, unless that is closed.
func ofSocket(socket any, do func(fd int)) {
	of, is := socket.(syscall.Conn)
	if !is {
		return
	}
	raw, err := of.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { do(int(fd)) }) // an error: it is closed
	}
}
