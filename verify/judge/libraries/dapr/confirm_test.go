package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dapr/components-contrib/lock"
	"github.com/dapr/components-contrib/lock/redis"
	"github.com/dapr/components-contrib/metadata"
	"github.com/dapr/kit/logger"
)

// TryLock sends its SET again if the connection breaks before the reply has come. If the first one
// was executed it then finds its own key, and says that the lock is held: it stays until its lease
// ends. Shown on the plain redis-server of REDIS_HOST and REDIS_PORT, which .ci/libraries starts.
func TestDaprLeavesWhatItHasTaken(t *testing.T) {
	if os.Getenv("REDIS_PORT") == "" {
		t.Skip("no server: .ci/libraries starts one, and sets REDIS_HOST and REDIS_PORT")
	}
	server := net.JoinHostPort(os.Getenv("REDIS_HOST"), os.Getenv("REDIS_PORT"))
	ask(t, server, "DEL dapr")

	proxy, lost := losesOneReply(t, server)
	store := redis.NewStandaloneRedisLock(logger.NewLogger("test"))
	err := store.InitLockStore(t.Context(), lock.Metadata{
		Base: metadata.Base{Properties: map[string]string{"redisHost": proxy}},
	})
	if err != nil {
		t.Fatal(err)
	}

	response, err := store.TryLock(t.Context(), &lock.TryLockRequest{
		ResourceID: "dapr", LockOwner: "alice", ExpiryInSeconds: 300,
	})
	if err != nil || response.Success || !lost.Load() {
		t.Errorf("taken: %v, %v; a reply was lost: %t", response, err, lost.Load())
	}
	if owner := ask(t, server, "GET dapr"); owner != "alice" {
		t.Errorf("the lock is %q's", owner)
	}
	if left := ask(t, server, "TTL dapr"); len(left) != len(":299") {
		t.Errorf("of 300 s its lease has %s s left", left)
	}
}

// losesOneReply is a proxy before a server: the connection breaks before the reply to the first
// request with a "nx" in it comes. lost says that it has.
func losesOneReply(t *testing.T, server string) (address string, lost *atomic.Bool) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })

	lost = new(atomic.Bool)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(client, server, lost)
		}
	}()
	return listener.Addr().String(), lost
}

// forward passes what a client sends and is sent, until the reply comes that is to be lost.
func forward(client net.Conn, server string, lost *atomic.Bool) {
	defer client.Close()
	conn, err := net.Dial("tcp", server)
	if err != nil {
		return
	}

	var loses atomic.Bool // what the server says from now on
	go func() {
		defer conn.Close()
		pass(conn, client, func(request []byte) bool {
			isNX := bytes.Contains(bytes.ToLower(request), []byte("\r\nnx\r\n"))
			if isNX && lost.CompareAndSwap(false, true) {
				loses.Store(true) // before the request is passed on
			}
			return true
		})
	}()
	pass(client, conn, func([]byte) bool { return !loses.Load() })
}

// pass passes what one side says to the other, as long as it may.
func pass(to, from net.Conn, may func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || !may(buffer[:n]) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// ask sends a command, and returns the reply: a text, or the first line of another one.
func ask(t *testing.T, server, command string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", server, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(conn, "%s\r\n", command); err != nil {
		t.Fatal(err)
	}

	reply := bufio.NewReader(conn)
	line, err := reply.ReadString('\n')
	if err == nil && line[0] == '$' {
		line, err = reply.ReadString('\n')
	}
	if err != nil && err != io.EOF {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace([]byte(line)))
}
