package servers

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

const (
	zooKeeperJar    = "/usr/share/java/zookeeper.jar" // its manifest names what it needs
	zooKeeperLogger = "/usr/share/java/slf4j-simple.jar"

	// zooKeeperConfig lets sessions be as short as tests want them. Sessions end on a tick.
	zooKeeperConfig = `tickTime=500
minSessionTimeout=500
maxSessionTimeout=60000
initLimit=20
syncLimit=10
maxClientCnxns=0
clientPortAddress=127.0.0.1
`
	askTimeout = time.Second
)

// FindZooKeeper returns the Java that runs ZooKeeper, if both are installed.
func FindZooKeeper() (java string, err error) {
	const pack = "--no-install-recommends zookeeper"
	if _, err := os.Stat(zooKeeperJar); err != nil {
		return "", fmt.Errorf("no %s (apt-get install %s): %w", zooKeeperJar, pack, backend.ErrUnavailable)
	}
	return find(pack, "java")
}

// StartZooKeeper starts n servers of ZooKeeper: a standalone server if n is 1.
func StartZooKeeper(ctx context.Context, n int) (*Ensemble, error) {
	java, err := FindZooKeeper()
	if err != nil {
		return nil, err
	}
	zooKeeper := product{name: "zookeeper", ports: 3, configure: configureZooKeeper, ask: askZooKeeper}
	return startEnsemble(ctx, zooKeeper, java, n)
}

// configureZooKeeper writes zoo.cfg and, for an ensemble, myid. The ports are for clients, for the quorum and for
// elections.
func configureZooKeeper(m *member, i int, ports []string) error {
	data, file := filepath.Join(m.folder, "data"), filepath.Join(m.folder, "zoo.cfg")
	m.args = []string{
		"-Xmx256m", "-XX:+UseSerialGC",
		"-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=srvr",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", zooKeeperJar + string(filepath.ListSeparator) + zooKeeperLogger,
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", file,
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString(zooKeeperConfig)
	fmt.Fprintf(&text, "dataDir=%s\nclientPort=%s\n", data, ports[i*3])
	if n := len(ports) / 3; n > 1 {
		for j := range n {
			fmt.Fprintf(&text, "server.%d=127.0.0.1:%s:%s\n", j+1, ports[j*3+1], ports[j*3+2])
		}
		if err := os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(i+1)), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(file, []byte(text.String()), 0o600)
}

// askZooKeeper asks a server whether it is a leader, a follower or standalone. One that does not serve yet answers,
// too, but has no mode.
func askZooKeeper(ctx context.Context, addr string) (s status, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return status{}, err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return status{}, err
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return status{}, err
	}
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		if strings.Contains(lines.Text(), "not in the whitelist") { // a user's server: it does not say more
			return s, nil
		}
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "Zookeeper version":
			s.version, _, _ = strings.Cut(value, "-")
		case "Mode":
			s.leads = value == "leader" || value == "standalone"
			return s, nil
		}
	}
	return status{}, errors.New("it does not serve yet")
}
