package servers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market/backend"
)

const (
	watchedName = "market" // by which the sentinels know the master
	quorum      = 2
	sentinels   = 3

	// downAfter is how long a master may be silent before it is called down: short, so that a scenario goes on within
	// two seconds, and long enough for a busy machine.
	downAfter = 500 * time.Millisecond
	// failoverTimeout bounds the steps of a failover; after twice this time a failed one is tried again.
	failoverTimeout = 3 * time.Second
	// promotable is how long after a cut the replica is still a candidate: Sentinel passes over one whose link to the
	// master was down for more than ten times downAfter when the master fell silent. It leaves room for seconds that
	// are rounded up.
	promotable = 10*downAfter - 2*time.Second

	// replicaUser is whom the replica logs in as, so that it can be kept out and nobody else.
	replicaUser = "replica"
)

// ErrLate is returned by KillMaster, wrapped, when replication was cut so long ago that nobody would take over.
var ErrLate = errors.New("replication was cut too long ago")

// A Sentinel is a master, its replica and the three sentinels that promote the replica when the master dies: the
// servers on which an acknowledged write, such as a lock, is lost although every server did what it promises, because
// Redis replicates after it has answered. It is good for one failover. Its methods are not safe for concurrent use,
// except for Master and Dial.
type Sentinel struct {
	master, replica *backend.Server
	watchers        []*member
	cut             time.Time // when replication was; zero: it was not
}

// StartSentinel starts the servers and returns, after about two seconds, when the replica follows and every sentinel
// knows of it and of the other sentinels.
func StartSentinel(ctx context.Context) (*Sentinel, error) {
	program, err := find("redis-server", "redis-server", "valkey-server")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	var s *Sentinel
	err = backend.OnFreePorts(ctx, 0, func([]string) error {
		s = &Sentinel{watchers: make([]*member, sentinels)}
		err := s.start(ctx, program)
		if err != nil {
			err = errors.Join(err, s.Close())
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("starting a master with Sentinel: %w", backend.OfContext(ctx, err))
	}
	return s, nil
}

func (s *Sentinel) start(ctx context.Context, program string) (err error) {
	user := []string{
		"--user", replicaUser, "on", "nopass", "+psync", "+replconf", "+ping", "--repl-diskless-sync-delay", "0",
	}
	if s.master, err = (backend.Local{Args: user}).Start(ctx); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.master.Target.Addr)
	if err != nil {
		return err
	}
	follow := append(user, "--replicaof", host, port, "--masteruser", replicaUser, "--masterauth", "any")
	if s.replica, err = (backend.Local{Args: follow}).Start(ctx); err != nil {
		return err
	}
	// A sentinel asks for replicas when it starts, and then every ten seconds only.
	if err := s.caughtUp(ctx); err != nil {
		return err
	}
	err = each(sentinels, func(i int) error {
		return backend.OnFreePorts(ctx, 1, func(ports []string) (err error) {
			s.watchers[i], err = startWatcher(ctx, program, ports[0], host, port)
			return err
		})
	})
	if err != nil {
		return err
	}
	return s.await(ctx)
}

// await returns when every sentinel knows of the replica and of the other sentinels, or as soon as one has ended, which they
// would wait for: another process was quicker to take its port, and may even have answered in its place.
func (s *Sentinel) await(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return each(sentinels, func(i int) error {
		err := s.watchers[i].process.Await(ctx, pollEvery, func() error { return watches(ctx, s.watchers[i].addr) })
		if err != nil {
			cancel()
		}
		return err
	})
}

// startWatcher starts a sentinel of the master at host and port and returns when it answers. It writes what it learns
// into its configuration.
func startWatcher(ctx context.Context, program, own, host, port string) (*member, error) {
	w, err := newMember(program, "sentinel", net.JoinHostPort("127.0.0.1", own))
	if err != nil {
		return nil, err
	}
	file := filepath.Join(w.folder, "sentinel.conf")
	w.args = []string{file, "--sentinel"}
	config := strings.Join([]string{
		"bind 127.0.0.1",
		"port " + own,
		fmt.Sprintf("sentinel monitor %s %s %s %d", watchedName, host, port, quorum),
		fmt.Sprintf("sentinel down-after-milliseconds %s %d", watchedName, downAfter.Milliseconds()),
		fmt.Sprintf("sentinel failover-timeout %s %d", watchedName, failoverTimeout.Milliseconds()),
		"",
	}, "\n")
	if err = os.WriteFile(file, []byte(config), 0o600); err == nil {
		err = w.start(ctx, func() error {
			_, err := backend.FindMaster(ctx, backend.Target{Network: "tcp", Addr: w.addr, Master: watchedName})
			return err
		})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a sentinel: %w", err), w.close())
	}
	return w, nil
}

// watches says why the sentinel at addr could not take part in a failover yet.
func watches(ctx context.Context, addr string) error {
	conn, err := backend.Dial(ctx, backend.Target{Network: "tcp", Addr: addr})
	if err != nil {
		return err
	}
	defer conn.Close()
	master := redis.NewMapStringStringCmd(ctx, "SENTINEL", "master", watchedName)
	if err := conn.Process(ctx, master); err != nil {
		return fmt.Errorf("asking the sentinel at %s what it knows: %w", addr, err)
	}
	known := master.Val()
	flags, replicas, others := known["flags"], known["num-slaves"], known["num-other-sentinels"]
	if flags != "master" || replicas != "1" || others != strconv.Itoa(sentinels-1) {
		return fmt.Errorf("the sentinel at %s sees a %s with %s replicas, and %s other sentinels", addr, flags,
			replicas, others)
	}
	return nil
}

// Master asks the sentinels where the master is, as clients do.
func (s *Sentinel) Master(ctx context.Context) (backend.Target, error) {
	return backend.FindMaster(ctx, s.target())
}

func (s *Sentinel) target() backend.Target {
	var addrs []string
	for _, w := range s.watchers {
		addrs = append(addrs, w.addr)
	}
	return backend.Target{Network: "tcp", Addr: strings.Join(addrs, ","), Master: watchedName}
}

// Dial connects to what a sentinel says is the master.
func (s *Sentinel) Dial(ctx context.Context) (*backend.Conn, error) {
	target, err := s.Master(ctx)
	if err != nil {
		return nil, err
	}
	return backend.Dial(ctx, target)
}

// CutReplication makes the replica stop for good: it has what was written before this was called, and gets nothing that
// is written after this has returned. The master is to be killed within three seconds, because Sentinel does not
// promote a replica whose link was down for longer.
func (s *Sentinel) CutReplication(ctx context.Context) error {
	if err := s.caughtUp(ctx); err != nil {
		return fmt.Errorf("cutting replication: %w", err)
	}
	conn, err := s.master.Dial(ctx)
	if err != nil {
		return fmt.Errorf("cutting replication: %w", err)
	}
	defer conn.Close()
	s.cut = time.Now()
	// First it may not log in again, and then its connection goes.
	if err := conn.Do(ctx, "ACL", "SETUSER", replicaUser, "off").Err(); err != nil {
		return fmt.Errorf("cutting replication: keeping the replica out: %w", err)
	}
	if err := conn.ClientKillByFilter(ctx, "TYPE", "replica").Err(); err != nil {
		return fmt.Errorf("cutting replication: closing the replica's connection: %w", err)
	}
	return backend.Await(ctx, pollEvery, func() error { return s.parted(ctx) })
}

// parted says why a write could still arrive.
func (s *Sentinel) parted(ctx context.Context) error {
	master, err := replication(ctx, s.master)
	if err != nil {
		return err
	}
	replica, err := replication(ctx, s.replica)
	if err != nil {
		return err
	}
	if master["connected_slaves"] != "0" || replica["master_link_status"] != "down" {
		return fmt.Errorf("the master has %s replicas and the replica's link is %s", master["connected_slaves"],
			replica["master_link_status"])
	}
	return nil
}

// caughtUp returns when the replica has what the master had when this was called.
func (s *Sentinel) caughtUp(ctx context.Context) error {
	fields, err := replication(ctx, s.master)
	if err != nil {
		return err
	}
	want, err := strconv.ParseInt(fields["master_repl_offset"], 10, 64)
	if err != nil {
		return fmt.Errorf("reading the master's replication offset: %w", err)
	}
	return backend.Await(ctx, pollEvery, func() error {
		fields, err := replication(ctx, s.replica)
		if err != nil {
			return err
		}
		offset, _ := strconv.ParseInt(fields["slave_repl_offset"], 10, 64) // absent while it synchronizes
		if link := fields["master_link_status"]; link != "up" || offset < want {
			return fmt.Errorf("the replica's link is %s and it has %d bytes of %d", link, offset, want)
		}
		return nil
	})
}

// KillMaster ends the first master as a crash would. It returns ErrLate, wrapped, when nobody would take over any more.
func (s *Sentinel) KillMaster() error {
	if !s.cut.IsZero() && time.Since(s.cut) > promotable {
		return fmt.Errorf("killing the master: %w: %v, and Sentinel promotes the replica only within %v; "+
			"kill it sooner after the cut", ErrLate, time.Since(s.cut).Round(time.Millisecond), promotable)
	}
	return s.master.Kill()
}

// AwaitFailover returns the former replica when it is a master and a sentinel names it to clients. Without a bound in
// ctx it may wait for ever.
func (s *Sentinel) AwaitFailover(ctx context.Context) (backend.Target, error) {
	err := backend.Await(ctx, pollEvery, func() error {
		fields, err := replication(ctx, s.replica)
		if err != nil {
			return err
		}
		target, err := s.Master(ctx)
		if err != nil {
			return err
		}
		if fields["role"] != "master" || target.Addr != s.replica.Target.Addr {
			return fmt.Errorf("the replica's role is %s and the sentinels name %s", fields["role"], target.Addr)
		}
		return nil
	})
	if err != nil {
		return backend.Target{}, fmt.Errorf("waiting for the failover: %w", err)
	}
	return s.replica.Target, nil
}

// replication returns the fields of a server's INFO replication.
func replication(ctx context.Context, s *backend.Server) (map[string]string, error) {
	conn, err := s.Dial(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.InfoFields(ctx, "replication")
}

// Close ends the sentinels, and then the servers that they watch.
func (s *Sentinel) Close() error {
	err := each(len(s.watchers), func(i int) error {
		if s.watchers[i] == nil {
			return nil
		}
		return s.watchers[i].close()
	})
	return errors.Join(err, redises{s.replica, s.master}.Close())
}
