//go:build !linux

package wire

import "net"

// unread is not known here.
func unread(net.Conn) int { return 0 }

// backlog is not known here.
func backlog(net.Listener) int { return 0 }
