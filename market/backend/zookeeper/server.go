package zookeeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/marketsim/marketsim/market/backend"
)

// errEnded is returned by awaitReady for a server that ended as soon as it was started.
var errEnded = errors.New("the ZooKeeper server ended as soon as it was started")

// config lets sessions be as short as tests want them. Sessions end on a tick.
const config = `tickTime=500
minSessionTimeout=500
maxSessionTimeout=60000
initLimit=20
syncLimit=10
maxClientCnxns=0
clientPortAddress=127.0.0.1
`

// server is one ZooKeeper server.
type server struct {
	child  *backend.Child
	java   string
	folder string
	addr   string
}

// start starts the server, which has been configured.
func (s *server) start() (err error) {
	s.child, err = backend.StartChild(s.java, s.folder, []string{
		"-Xmx256m", "-XX:+UseSerialGC",
		"-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=srvr",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", classPath(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", s.file(),
	})
	return err
}

func (s *server) file() string { return filepath.Join(s.folder, "zoo.cfg") }

// configure writes zoo.cfg and, for an ensemble, myid.
func (s *server) configure(i int, ports []string) error {
	data := filepath.Join(s.folder, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString(config)
	fmt.Fprintf(&text, "dataDir=%s\nclientPort=%s\n", data, ports[i*portsEach])
	if n := len(ports) / portsEach; n > 1 {
		for j := range n {
			own := ports[j*portsEach:]
			fmt.Fprintf(&text, "server.%d=127.0.0.1:%s:%s\n", j+1, own[1], own[2])
		}
		if err := os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(i+1)), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(s.file(), []byte(text.String()), 0o600)
}

// awaitReady polls until the server serves, ends, or the time is up.
func (s *server) awaitReady(ctx context.Context) error {
	for {
		_, err := s.mode(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.child.Exited():
			return fmt.Errorf("%w; the end of its log:\n%s", errEnded, s.log())
		case <-ctx.Done():
			return fmt.Errorf("the ZooKeeper server at %s did not serve: %w: %w; the end of its log:\n%s",
				s.addr, ctx.Err(), err, s.log())
		case <-time.After(pollEvery):
		}
	}
}

// mode asks the server what it is: leader, follower or standalone. One that does not serve yet has no mode, although
// it answers.
func (s *server) mode(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if mode, ok := strings.CutPrefix(lines.Text(), "Mode: "); ok {
			return mode, nil
		}
	}
	return "", errors.New("it does not serve yet")
}

// log is the end of the server's log without the stack traces, which would fill it.
func (s *server) log() string {
	var kept []string
	for line := range strings.Lines(s.child.Log()) {
		if !strings.HasPrefix(line, "\tat ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
