package redisconn

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// piecesAhead is how many pieces are read ahead before the sender has to wait.
const piecesAhead = 1024

// delayedConn hands over what it receives some time after it came. One goroutine
// reads ahead and notes when, so that what comes while the reader is busy is late by
// the delay and not by more; another one hands it over when it is due. It does not
// show its socket. go-redis, which peeks at a socket before it uses an idle
// connection, would miss what has been read ahead: that the server has closed it is
// noticed by the next command, as over TLS.
type delayedConn struct {
	net.Conn
	heard net.Conn     // where it is handed over
	close func() error // does something once
}

type piece struct {
	data []byte
	due  time.Time // when it is handed over
}

func delayed(conn net.Conn, by time.Duration, newAlarm func() Alarm) net.Conn {
	if by <= 0 {
		return conn
	}

	heard, hand := net.Pipe()
	pieces := make(chan piece, piecesAhead)
	open, end := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { readAhead(open, conn, by, pieces) })
	running.Go(func() { handOver(open, pieces, hand, newAlarm()) })

	return &delayedConn{conn, heard, sync.OnceValue(func() error {
		// In this order: a Read under way returns for the first.
		err := errors.Join(heard.Close(), conn.Close())
		end()
		running.Wait()
		return err
	})}
}

func readAhead(open context.Context, conn net.Conn, by time.Duration, pieces chan<- piece) {
	defer close(pieces)
	buffer := make([]byte, bufferSize)
	for {
		n, err := conn.Read(buffer)

		// With an error the piece may be empty: the end of the connection is as late as data.
		select {
		case pieces <- piece{slices.Clone(buffer[:n]), time.Now().Add(by)}:
		case <-open.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func handOver(open context.Context, pieces <-chan piece, to net.Conn, due Alarm) {
	defer to.Close()
	defer due.Close()
	for p := range pieces {
		// the alarm may be early
		for late := time.Until(p.due); late > 0 && open.Err() == nil; late = time.Until(p.due) {
			due.Sleep(late, open.Done())
		}
		if len(p.data) > 0 { // it is not the end alone
			if _, err := to.Write(p.data); err != nil {
				return
			}
		}
	}
}

func (c *delayedConn) Read(b []byte) (int, error) {
	n, err := c.heard.Read(b)
	if err == io.ErrClosedPipe {
		err = net.ErrClosed
	}
	return n, err
}

// SetReadDeadline implements net.Conn. It is about when something is handed over.
func (c *delayedConn) SetReadDeadline(t time.Time) error { return c.heard.SetReadDeadline(t) }

func (c *delayedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Close implements net.Conn. A Read under way returns, and nothing is handed over any more.
func (c *delayedConn) Close() error { return c.close() }
