package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// fakeRedis answers each command with what answer returns, in Redis's protocol, and returns its address.
func fakeRedis(t *testing.T, answer func(args []string) string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for args, err := readCommand(r); err == nil; args, err = readCommand(r) {
					if _, err := io.WriteString(conn, answer(args)); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	return l.Addr().String()
}

// readCommand reads an array of bulk strings.
func readCommand(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, "*")
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readLength(r, "$")
		if err != nil {
			return nil, err
		}
		text := make([]byte, size+2)
		if _, err := io.ReadFull(r, text); err != nil {
			return nil, err
		}
		args[i] = string(text[:size])
	}
	return args, nil
}

func readLength(r *bufio.Reader, kind string) (int, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	digits, ok := strings.CutPrefix(strings.TrimSpace(line), kind)
	if !ok {
		return 0, errors.New("not Redis's protocol")
	}
	return strconv.Atoi(digits)
}

// oldRedis is a server of a version that marketsim does not know how to use.
func oldRedis(args []string) string {
	switch strings.ToLower(args[0]) {
	case "ping":
		return "+PONG\r\n"
	case "auth", "select":
		return "+OK\r\n"
	case "info":
		text := "# Server\r\nredis_version:6.0.16\r\n"
		return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text)
	}
	return fmt.Sprintf("-ERR unknown command `%s`, with args beginning with: `%s`\r\n", args[0], strings.Join(args[1:], "`, `"))
}
