package servers

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/marketsim/marketsim/internal/process"
)

// An Ensemble is one or more servers of ZooKeeper or etcd, which elect a leader. One of
// three works on while a server is down. The servers write to disk as in production. The
// methods are not safe for concurrent use.
type Ensemble struct {
	Members []*Node
	Version string // as the first server says

	product product
}

type product struct {
	name  string
	find  func() (program string, err error)
	ports int // how many each server needs; the first is for clients

	// configure gives server i its arguments, and writes what it needs into its folder.
	configure func(m *Node, i int, ports []string) error
	// ask returns an error if the server at addr does not serve.
	ask func(ctx context.Context, addr string) (status, error)
}

// A Node is a server. Its folder outlives its process: one that is started
// again finds its data.
type Node struct {
	*process.Process
	addr string // for clients, host:port
}

type status struct {
	leads   bool
	version string
}

func startEnsemble(ctx context.Context, p product, n int) (e *Ensemble, err error) {
	program, err := p.find()
	if err != nil {
		return nil, err
	}

	// It may start several times, on other ports, each time with an Ensemble of its own.
	err = process.OnFreePorts(ctx, n*p.ports, func(ports []string) error {
		e = &Ensemble{product: p}
		if err := e.start(ctx, program, ports); err != nil {
			return errors.Join(err, e.Close())
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	return e, nil
}

// start configures the members, then starts them. After an error those in e.Members are to be
// closed: they may have folders and processes.
func (e *Ensemble) start(ctx context.Context, program string, ports []string) error {
	for i := range len(ports) / e.product.ports {
		m := &Node{
			Process: &process.Process{Name: e.product.name, Program: program},
			addr:    "127.0.0.1:" + ports[i*e.product.ports],
		}
		m.Ready = func(ctx context.Context, _ int) error {
			s, err := e.product.ask(ctx, m.addr)
			if i == 0 && err == nil { // one writes: all are asked at the same time
				e.Version = s.version
			}
			return err
		}
		e.Members = append(e.Members, m)

		err := m.MakeFolder()
		if err == nil {
			err = e.product.configure(m, i, ports)
		}
		if err != nil {
			return fmt.Errorf("configuring server %d: %w", i+1, err)
		}
	}

	// At the same time, because none serves before a majority is there.
	return each(len(e.Members), func(i int) error {
		return e.Members[i].Start(ctx)
	})
}

// Addrs are the addresses for clients, host:port, also of servers that were killed.
func (e *Ensemble) Addrs() []string {
	return mapped(e.Members, func(m *Node) string {
		return m.addr
	})
}

// Ask asks one server, by its number, for its status. The error says that it does not
// serve, or that it has not answered within a second.
func (e *Ensemble) Ask(ctx context.Context, i int) error {
	_, err := e.product.ask(ctx, e.Members[i].addr)
	return err
}

// Leader returns which server leads, and waits for an election if none does. A
// single server leads itself.
func (e *Ensemble) Leader(ctx context.Context) (leader int, err error) {
	err = process.Await(ctx, pollEvery, func() error {
		for i, m := range e.Members {
			if s, err := e.product.ask(ctx, m.addr); err == nil && s.leads {
				leader = i
				return nil
			}
		}
		return fmt.Errorf("no %s server leads", e.product.name)
	})
	return leader, err
}

// Close ends all servers and removes their folders. A nil Ensemble has none.
func (e *Ensemble) Close() error {
	if e == nil {
		return nil
	}
	return each(len(e.Members), func(i int) error {
		return e.Members[i].Close()
	})
}

// etcd makes no lease shorter than 1.5 times its election time-out, rounded up to whole
// seconds: two seconds with its default of 1000 ms. With this one it is one second, the
// shortest that can be asked for. Both are milliseconds.
const (
	etcdHeartbeat       = "50"
	etcdElectionTimeout = "600"
)

// FindEtcd returns the path of etcd, if it is installed.
func FindEtcd() (string, error) { return process.Find("etcd-server", "etcd") }

// StartEtcd starts an etcd of n members, 3.4 or newer.
func StartEtcd(ctx context.Context, n int) (*Ensemble, error) {
	return startEnsemble(ctx, product{
		name:      "etcd",
		find:      FindEtcd,
		ports:     2,
		configure: configureEtcd,
		ask:       askEtcd,
	}, n)
}

// The ports are for clients and for the other members.
func configureEtcd(m *Node, i int, ports []string) error {
	var all []string
	for j := range len(ports) / 2 {
		all = append(all, fmt.Sprintf("member-%d=http://127.0.0.1:%s", j+1, ports[j*2+1]))
	}
	client := "http://" + m.addr
	peer := "http://127.0.0.1:" + ports[i*2+1]

	m.Args = []string{
		"--name", fmt.Sprintf("member-%d", i+1), "--data-dir", filepath.Join(m.Folder.Path, "data"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", strings.Join(all, ","),
		"--initial-cluster-token", strings.Join(ports, "-"), // the members of two clusters cannot mix
		"--heartbeat-interval", etcdHeartbeat, "--election-timeout", etcdElectionTimeout,
		"--logger", "zap", "--log-level", "error",
	}

	// etcd ends at once when an environment variable of the user sets what an argument
	// sets. On ARM, etcd 3.4 starts only with the variable that is added here.
	m.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "ETCD_")
	})
	m.Env = append(m.Env, "ETCD_UNSUPPORTED_ARCH="+runtime.GOARCH)
	return nil
}

// askEtcd asks a member for its status. It fails while the member knows no leader, and so
// does not serve.
func askEtcd(ctx context.Context, addr string) (status, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	conn, err := grpc.NewClient("passthrough:///"+addr, plain)
	if err != nil {
		return status{}, err
	}
	defer conn.Close()

	reply, err := etcdserverpb.NewMaintenanceClient(conn).Status(ctx, &etcdserverpb.StatusRequest{})
	switch {
	case err != nil:
		return status{}, fmt.Errorf("the status of the etcd at %s: %w", addr, err)
	case reply.Leader == 0:
		return status{}, fmt.Errorf("the etcd at %s knows no leader", addr)
	}
	return status{leads: reply.Leader == reply.Header.MemberId, version: reply.Version}, nil
}

const (
	zooKeeperJar    = "/usr/share/java/zookeeper.jar" // its manifest names what it needs
	zooKeeperLogger = "/usr/share/java/slf4j-simple.jar"
	askTimeout      = time.Second
	maxAnswer       = 1 << 20 // bytes that are read of an answer
)

// zooKeeperConfig lets sessions be as short as tests want them. Sessions end on a tick.
//
//go:embed zoo.cfg
var zooKeeperConfig string

// FindZooKeeper returns the Java that runs ZooKeeper, if both are installed.
func FindZooKeeper() (java string, err error) {
	const pack = "--no-install-recommends zookeeper"
	if _, err := os.Stat(zooKeeperJar); err != nil {
		return "", fmt.Errorf("no %s (apt-get install %s): %w", zooKeeperJar, pack, process.ErrUnavailable)
	}
	return process.Find(pack, "java")
}

// StartZooKeeper starts n servers of ZooKeeper: a standalone server if n is 1.
func StartZooKeeper(ctx context.Context, n int) (*Ensemble, error) {
	return startEnsemble(ctx, product{
		name:      "zookeeper",
		find:      FindZooKeeper,
		ports:     3,
		configure: configureZooKeeper,
		ask:       askZooKeeper,
	}, n)
}

// The ports are for clients, for the quorum and for elections.
func configureZooKeeper(m *Node, i int, ports []string) error {
	data := filepath.Join(m.Folder.Path, "data")
	file := filepath.Join(m.Folder.Path, "zoo.cfg")
	m.Args = []string{
		"-Xmx256m", "-XX:+UseSerialGC",
		// askZooKeeper asks for srvr, and counts a server that forbids it as one that serves.
		"-Dzookeeper.admin.enableServer=false", "-Dzookeeper.4lw.commands.whitelist=srvr",
		// A server that misses a vote asks again after twice as long each time, by
		// default after up to a minute.
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

	// The servers of an ensemble know of each other, and each its own number.
	if n := len(ports) / 3; n > 1 {
		for j := range n {
			fmt.Fprintf(&text, "server.%d=127.0.0.1:%s:%s\n", j+1, ports[j*3+1], ports[j*3+2])
		}
		id := []byte(strconv.Itoa(i + 1))
		if err := os.WriteFile(filepath.Join(data, "myid"), id, 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(file, []byte(text.String()), 0o600)
}

// zooKeeperServes is the answer of a server that serves. One that does not yet
// names no mode.
var zooKeeperServes = regexp.MustCompile(`(?s)Zookeeper version: ([^-\n]*).*Mode: (\w+)`)

// askZooKeeper asks a server for its mode and version. The server closes the connection after
// its answer. One whose user forbids the question counts as one that serves: it gets a zero
// status without an error.
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
	answer, _ := io.ReadAll(io.LimitReader(conn, maxAnswer)) // cut short, it does not match
	matched := zooKeeperServes.FindStringSubmatch(string(answer))
	switch {
	case strings.Contains(string(answer), "not in the whitelist"):
		// a user's server: it does not say more
		return status{}, nil
	case matched == nil:
		return status{}, errors.Join(err, errors.New("it does not serve yet"))
	}

	version, mode := matched[1], matched[2]
	return status{leads: mode == "leader" || mode == "standalone", version: version}, nil
}
