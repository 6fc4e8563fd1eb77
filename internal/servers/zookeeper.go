package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
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
	maxAnswer  = 1 << 20 // bytes that are read of an answer
)

// FindZooKeeper returns the Java that runs ZooKeeper, if both are installed.
func FindZooKeeper() (java string, err error) {
	const pack = "--no-install-recommends zookeeper"
	if _, err := os.Stat(zooKeeperJar); err != nil {
		return "", fmt.Errorf("no %s (apt-get install %s): %w", zooKeeperJar, pack, backend.ErrUnavailable)
	}
	return backend.Find(pack, "java")
}

// StartZooKeeper starts n servers of ZooKeeper: a standalone server if n is 1.
func StartZooKeeper(ctx context.Context, n int) (*Ensemble, error) {
	return startEnsemble(ctx, product{
		name: "zookeeper", find: FindZooKeeper, ports: 3, configure: configureZooKeeper, ask: askZooKeeper,
	}, n)
}

// configureZooKeeper writes zoo.cfg and, for an ensemble, myid. The ports are for clients, for the quorum and for
// elections.
func configureZooKeeper(m *Member, i int, ports []string) error {
	data, file := filepath.Join(m.Folder.Path, "data"), filepath.Join(m.Folder.Path, "zoo.cfg")
	m.Args = []string{
		"-Xmx256m", "-XX:+UseSerialGC",
		"-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=srvr",
		// A server that misses a vote asks again after twice as long each time, by default after up to a minute.
		"-Dzookeeper.fastleader.maxNotificationInterval=1000",
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

// zooKeeperServes is the answer of a server that serves: one that does not yet has no mode.
var zooKeeperServes = regexp.MustCompile(`(?s)Zookeeper version: ([^-\n]*).*Mode: (\w+)`)

// askZooKeeper asks a server whether it is a leader, a follower or standalone.
func askZooKeeper(ctx context.Context, addr string) (status, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return status{}, err
	}
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	_, err = io.WriteString(conn, "srvr")
	answer, _ := io.ReadAll(io.LimitReader(conn, maxAnswer)) // what there is of it tells
	said := zooKeeperServes.FindStringSubmatch(string(answer))
	switch {
	case strings.Contains(string(answer), "not in the whitelist"): // a user's server: it does not say more
		return status{}, nil
	case said == nil:
		return status{}, errors.Join(err, errors.New("it does not serve yet"))
	}
	return status{leads: said[2] == "leader" || said[2] == "standalone", version: said[1]}, nil
}
