package sentinel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
)

const portTries = 5

// watcher is one sentinel, in a folder of its own, because it writes what it learns into its configuration.
type watcher struct {
	child  *backend.Child
	folder string
	target backend.Target
}

var errEnded = errors.New("the sentinel ended as soon as it was started")

// startWatcher starts a sentinel of the master at host and port and returns when it answers. Another process may take its
// port before it does.
func startWatcher(ctx context.Context, host, port string) (*watcher, error) {
	program, err := find()
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		w, err := tryWatcher(ctx, program, host, port)
		if err == nil || !errors.Is(err, errEnded) || try == portTries {
			return w, err
		}
	}
}

// find finds the server that is a sentinel when told so.
func find() (string, error) {
	for _, program := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(program); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no redis-server or valkey-server in PATH: %w", backend.ErrUnavailable)
}

func tryWatcher(ctx context.Context, program, host, port string) (*watcher, error) {
	ports, err := backend.FreePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "marketsim-sentinel-")
	if err != nil {
		return nil, fmt.Errorf("making a sentinel's folder: %w", err)
	}
	w := &watcher{folder: folder, target: backend.Target{Network: "tcp", Addr: net.JoinHostPort("127.0.0.1", ports[0])}}
	file := filepath.Join(folder, "sentinel.conf")
	if err := os.WriteFile(file, []byte(config(ports[0], host, port)), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("writing a sentinel's configuration: %w", err), w.close())
	}
	if w.child, err = backend.StartChild(program, folder, []string{file, "--sentinel"}); err != nil {
		return nil, errors.Join(err, w.close())
	}
	if err := w.awaitAnswer(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func config(own, host, port string) string {
	return strings.Join([]string{
		"bind 127.0.0.1",
		"port " + own,
		fmt.Sprintf("sentinel monitor %s %s %s %d", name, host, port, quorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", name, downAfter.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s %d", name, failoverTimeout.Milliseconds()),
		"",
	}, "\n")
}

// awaitAnswer waits until our sentinel, and not another process on its port, answers.
func (w *watcher) awaitAnswer(ctx context.Context) error {
	return errors.Join(await(ctx, func() error {
		select {
		case <-w.child.Exited():
			return nil
		default:
		}
		_, err := w.master(ctx)
		return err
	}), w.ended())
}

func (w *watcher) ended() error {
	select {
	case <-w.child.Exited():
		return fmt.Errorf("%w; the end of its log:\n%s", errEnded, w.child.Log())
	default:
		return nil
	}
}

// master asks where the master is.
func (w *watcher) master(ctx context.Context) (string, error) {
	conn, err := backend.Dial(ctx, w.target)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	at, err := conn.Do(ctx, "SENTINEL", "get-master-addr-by-name", name).StringSlice()
	if err != nil || len(at) != 2 {
		return "", fmt.Errorf("asking the sentinel at %s for the master: %q, %w", w.target.Addr, at, err)
	}
	return net.JoinHostPort(at[0], at[1]), nil
}

// ready says why the sentinel could not take part in a failover yet.
func (w *watcher) ready(ctx context.Context) error {
	conn, err := backend.Dial(ctx, w.target)
	if err != nil {
		return errors.Join(err, w.ended())
	}
	defer conn.Close()
	master := redis.NewMapStringStringCmd(ctx, "SENTINEL", "master", name)
	if err := conn.Process(ctx, master); err != nil {
		return fmt.Errorf("asking the sentinel at %s for what it knows: %w", w.target.Addr, err)
	}
	known := master.Val()
	if known["flags"] != "master" || known["num-slaves"] != "1" || known["num-other-sentinels"] != fmt.Sprint(count-1) {
		return fmt.Errorf("the sentinel at %s sees a %s with %s replicas, and %s other sentinels", w.target.Addr, known["flags"],
			known["num-slaves"], known["num-other-sentinels"])
	}
	return nil
}

func (w *watcher) close() error {
	var err error
	if w.child != nil {
		err = w.child.Close()
	}
	return errors.Join(err, os.RemoveAll(w.folder))
}
