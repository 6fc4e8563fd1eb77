package servers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/marketsim/marketsim/market/backend"
)

// etcd makes no lease shorter than 1.5 times its election time-out, rounded up to whole seconds: two seconds with its
// default of 1000 ms. With this one it is one second, the shortest that can be asked for. Both are milliseconds.
const (
	etcdHeartbeat       = "50"
	etcdElectionTimeout = "600"
)

// FindEtcd returns the path of etcd, if it is installed.
func FindEtcd() (string, error) { return backend.Find("etcd-server", "etcd") }

// StartEtcd starts an etcd of n members, 3.4 or newer.
func StartEtcd(ctx context.Context, n int) (*Ensemble, error) {
	return startEnsemble(ctx, product{name: "etcd", find: FindEtcd, ports: 2, configure: configureEtcd, ask: askEtcd}, n)
}

// configureEtcd gives a member its arguments. The ports are for clients and for the other members.
func configureEtcd(m *Member, i int, ports []string) error {
	var all []string
	for j := range len(ports) / 2 {
		all = append(all, fmt.Sprintf("member-%d=http://127.0.0.1:%s", j+1, ports[j*2+1]))
	}
	client, peer := "http://"+m.addr, "http://127.0.0.1:"+ports[i*2+1]
	m.Args = []string{
		"--name", fmt.Sprintf("member-%d", i+1), "--data-dir", filepath.Join(m.Folder.Path, "data"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", strings.Join(all, ","),
		"--initial-cluster-token", strings.Join(ports, "-"), // the members of two clusters cannot mix
		"--heartbeat-interval", etcdHeartbeat, "--election-timeout", etcdElectionTimeout,
		"--logger", "zap", "--log-level", "error",
	}
	// etcd ends at once when an environment variable of the user sets what an argument sets. On ARM, etcd 3.4 starts
	// only with the variable that is added here.
	m.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ETCD_") })
	m.Env = append(m.Env, "ETCD_UNSUPPORTED_ARCH="+runtime.GOARCH)
	return nil
}

// askEtcd asks a member for its status, which names no leader while the member does not serve.
func askEtcd(ctx context.Context, addr string) (status, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	const path = "/v3/maintenance/status" // of Maintenance.Status in etcd's API
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+path, strings.NewReader("{}"))
	if err != nil {
		return status{}, err
	}
	request.Close = true // or the connection would outlive this
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return status{}, err
	}
	defer reply.Body.Close()
	var said struct {
		Header struct {
			Member string `json:"member_id"`
		} `json:"header"`
		Leader  string `json:"leader"`
		Version string `json:"version"`
	}
	if err := json.NewDecoder(io.LimitReader(reply.Body, maxAnswer)).Decode(&said); err != nil {
		return status{}, fmt.Errorf("the status of the etcd at %s: %w", addr, err)
	}
	if said.Leader == "" || said.Leader == "0" {
		return status{}, fmt.Errorf("the etcd at %s knows no leader", addr)
	}
	return status{leads: said.Leader == said.Header.Member, version: said.Version}, nil
}
