package etcd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"google.golang.org/grpc"
)

// etcd makes no lease shorter than half as long again as an election may take, rounded up to whole seconds: its default
// election time-out of a second makes that two seconds. With this one it is one second, the shortest that can be asked
// for.
const (
	heartbeat       = 50 * time.Millisecond
	electionTimeout = 600 * time.Millisecond
)

// member is one server of a cluster. Between kill and start it has no etcd.
type member struct {
	name, folder string
	client, peer url.URL
	cluster      string // all names with their peers' addresses

	etcd *embed.Etcd
	cut  func() // closes the connections of clients
}

// newMember is the i-th member of those that have the ports.
func newMember(i int, ports []string) (*member, error) {
	folder, err := os.MkdirTemp("", "marketsim-etcd-")
	if err != nil {
		return nil, fmt.Errorf("making the folder of an etcd member: %w", err)
	}
	var all []string
	for j := range len(ports) / portsEach {
		peer := local(ports[j*portsEach+1])
		all = append(all, fmt.Sprintf("%s=%s", memberName(j), peer.String()))
	}
	return &member{
		name: memberName(i), folder: folder, client: local(ports[i*portsEach]), peer: local(ports[i*portsEach+1]),
		cluster: strings.Join(all, ","),
	}, nil
}

func memberName(i int) string { return fmt.Sprintf("marketsim-%d", i+1) }

func local(port string) url.URL {
	return url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", port)}
}

// config tells serving how to cut the connections of clients, when there can be any.
func (m *member) config(serving chan<- func()) *embed.Config {
	c := embed.NewConfig()
	c.Name, c.Dir = m.name, filepath.Join(m.folder, "data")
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{m.client}, []url.URL{m.client}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{m.peer}, []url.URL{m.peer}
	c.InitialCluster = m.cluster
	c.InitialClusterToken = m.cluster // the members of two clusters cannot mix
	c.TickMs, c.ElectionMs = uint(heartbeat.Milliseconds()), uint(electionTimeout.Milliseconds())
	c.ServiceRegister = func(g *grpc.Server) { serving <- g.Stop }
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop()) // what matters comes back as errors
	return c
}

// start starts the member and returns when it serves.
func (m *member) start(ctx context.Context) error {
	serving := make(chan func(), 1)
	e, err := embed.StartEtcd(m.config(serving))
	if err != nil {
		return err
	}
	m.etcd = e
	select {
	case m.cut = <-serving:
		return nil
	case <-e.Server.StopNotify():
		err = errors.New("it stopped as soon as it was started")
	case err = <-e.Err():
	case <-ctx.Done():
		err = ctx.Err()
	}
	m.kill()
	return err
}

func (m *member) leads() bool {
	return m.etcd != nil && m.etcd.Server.Leader() == m.etcd.Server.MemberID()
}

// kill returns when nothing of the member runs any more.
func (m *member) kill() {
	if m.etcd == nil {
		return
	}
	if m.cut != nil {
		m.cut()
	}
	m.etcd.Server.HardStop()
	m.etcd.Close()
	m.etcd, m.cut = nil, nil
}

func (m *member) end() error {
	m.kill()
	return os.RemoveAll(m.folder)
}
