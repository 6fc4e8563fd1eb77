package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/backend/container"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/internal/wording"
	"github.com/marketsim/marketsim/market"
)

// serverFlags say where the market runs, and where the servers are that some
// locks need besides.
type serverFlags struct {
	url, choice, passwordFile string
	tls                       redisconn.TLSFiles
	redlock, zookeeper, etcd  []string
	several                   []string // NAME=PATH of private servers
}

func (f *serverFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.url, "redis", "",
		"`URL` of your server or of a node of your cluster: redis://, rediss://, unix:// (default $REDIS_URL)")
	flags.StringVar(&f.passwordFile, "password-file", "", "`file` that holds its password (default $REDIS_PASSWORD)")
	flags.StringVar(&f.tls.CA, "cacert", "", "PEM `file` of authorities for rediss:// (default the system's)")
	flags.StringVar(&f.tls.Cert, "cert", "", "PEM `file` of the client certificate for rediss://")
	flags.StringVar(&f.tls.Key, "key", "", "PEM `file` of the client certificate's key")
	flags.StringVar(&f.tls.ServerName, "sni", "", "`name` in the server's certificate (default the URL's host)")
}

// addPrivate adds the flags of add, and those of servers that marketsim starts
// if the user names none.
func (f *serverFlags) addPrivate(flags *pflag.FlagSet) {
	flags.StringVar(&f.choice, "backend", "", "`kind`: "+
		strings.Join(append([]string{string(backend.OriginURL)}, private()...), ", ")+" (default what works)")
	f.add(flags)
	flags.StringSliceVar(&f.redlock, "redlock", nil,
		"`URLs` of your masters for the lock redlock (default five private ones)")
	flags.StringSliceVar(&f.zookeeper, "zookeeper", nil, "`host:port`s of your ZooKeeper (default a private one)")
	flags.StringSliceVar(&f.etcd, "etcd", nil, "`host:port`s of your etcd (default a private one)")
}

// addSeveral adds the flag of private servers that are compared.
func (f *serverFlags) addSeveral(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.several, "server", nil,
		"`NAME=PATH` of a private server; several are compared")
}

// starters start a private server; the first that succeeds is taken. As the embedded
// one always succeeds, a cluster is started only when it is chosen. An image is pulled
// only when a container is chosen.
func starters(choice backend.Origin) []backend.Starter {
	inDocker := container.Starter{Image: os.Getenv("MARKETSIM_IMAGE"), NoPull: choice != backend.OriginContainer}
	return []backend.Starter{backend.Local{}, inDocker, backend.Embedded{}, servers.ClusterStarter{}}
}

func private() []string {
	return wording.Names(starters(""), func(s backend.Starter) string { return string(s.Name()) })
}

type serverPlan struct {
	choice backend.Origin    // empty: the first that works
	target *redisconn.Target // the user's server; nil: a private one
	again  string            // the clean command for the user's server, without --prefix
	locks  servers.Addresses
	// Private servers that are to be compared; none: the one that choice and target say.
	several []namedServer

	passwords []string // every password that was given, also those that another overrides
}

// knows notes the password of a target. A user's name alone is one, too: see
// [redisconn.Target.String].
func (s *serverPlan) knows(t redisconn.Target) {
	s.passwords = append(s.passwords, t.Password)
	if t.Password == "" && t.Username != "default" {
		s.passwords = append(s.passwords, t.Username)
	}
}

// A namedServer is a program of this machine on which rows are measured.
type namedServer struct{ name, program string }

// severalServers reads --server.
func (f serverFlags) severalServers() (all []namedServer, err error) {
	for _, text := range f.several {
		name, path, _ := strings.Cut(text, "=")
		isThere := func(s namedServer) bool { return s.name == name }
		// "#2" marks a strategy that is there twice, and must not be part of a name.
		if badName(name) || strings.Contains(name, "#") || path == "" || slices.ContainsFunc(all, isThere) {
			return nil, usagef("--server %q: want NAME=PATH, such as valkey=/usr/bin/valkey-server, each NAME once", text)
		}
		program, err := exec.LookPath(path)
		if err != nil {
			return nil, usagef("--server %s: %w: is it installed?", name, err)
		}
		all = append(all, namedServer{name: name, program: program})
	}

	switch {
	case len(all) == 0:
		return nil, nil
	case f.url != "":
		return nil, usagef("--redis names your server and --server %s starts others: give one of them", f.several[0])
	case f.choice != "" && f.choice != string(backend.OriginLocal):
		return nil, usagef("--backend %s and --server %s: servers of --server are processes of this machine: "+
			"leave --backend out", f.choice, f.several[0])
	}
	return all, nil
}

// markets are the servers on which rows are measured; the name of the only one is empty.
func (s serverPlan) markets() []namedServer {
	if len(s.several) == 0 {
		return []namedServer{{}}
	}
	return s.several
}

// plan is what the flags and the environment say of servers. REDIS_URL counts where no flag
// names a server or a kind of server; REDIS_PASSWORD where the URL has no password; a file of
// --password-file before both.
func (f serverFlags) plan() (serverPlan, error) {
	s := serverPlan{choice: backend.Origin(f.choice)}
	several, err := f.severalServers()
	if err != nil {
		return s, err
	}
	s.several = several

	masters, err := f.masters()
	err = cmp.Or(err, addresses("zookeeper", f.zookeeper), addresses("etcd", f.etcd))
	s.locks = servers.Addresses{Masters: masters, ZooKeeper: f.zookeeper, Etcd: f.etcd}
	for _, master := range masters {
		s.knows(master)
	}

	url, from := f.url, "--redis"
	if url == "" && len(several) == 0 && (f.choice == "" || s.choice == backend.OriginURL) {
		url, from = os.Getenv("REDIS_URL"), "REDIS_URL"
	}
	switch {
	case err != nil: // of --redlock, --zookeeper or --etcd
		return s, err
	case f.url != "" && slices.Contains(private(), f.choice):
		return s, usagef("--redis names your server and --backend %s starts another: give one of them", f.choice)
	case url == "" && (f.passwordFile != "" || f.tls != (redisconn.TLSFiles{})):
		return s, usagef("--password-file, --cacert, --cert, --key and --sni are for a server of yours: give --redis URL")
	case url == "":
		return s, nil
	}

	// From here on there is a server of the user's, whose passwords must never be shown.
	target, err := redisconn.ParseURL(url)
	if err != nil {
		return s, fmt.Errorf("%s: %w", from, err)
	}
	if err := f.tls.Apply(&target); err != nil {
		return s, usageError{err}
	}
	s.passwords = append(s.passwords, target.Password) // even if the file's overrides it
	target.Password = cmp.Or(target.Password, os.Getenv("REDIS_PASSWORD"))
	if f.passwordFile != "" {
		text, err := os.ReadFile(f.passwordFile)
		if err != nil {
			return s, usagef("--password-file: %w", err)
		}
		target.Password = strings.TrimRight(string(text), "\r\n")
	}

	s.knows(target)
	s.target = &target
	s.again = f.again(from, target)
	return s, nil
}

// again is the clean command for the same server. It repeats each flag of add that was given.
// It holds no password: one from the URL has to be in REDIS_PASSWORD.
func (f serverFlags) again(from string, target redisconn.Target) string {
	words := []string{"marketsim clean"}
	if target.Password != "" && f.passwordFile == "" && target.Password != os.Getenv("REDIS_PASSWORD") {
		words = []string{"REDIS_PASSWORD=... marketsim clean"}
	}

	url := "" // of REDIS_URL: clean reads that by itself
	if from == "--redis" {
		url = target.WithoutPassword()
	}
	for _, flag := range []struct{ name, value string }{
		{"--redis", url}, {"--password-file", f.passwordFile}, {"--cacert", f.tls.CA}, {"--cert", f.tls.Cert},
		{"--key", f.tls.Key}, {"--sni", f.tls.ServerName},
	} {
		if flag.value != "" {
			words = append(words, flag.name, process.ShellLine(flag.value))
		}
	}
	return strings.Join(words, " ")
}

// clean is the command that removes what is left under a prefix on the user's
// server, to be pasted.
func (s serverPlan) clean(prefix string) string {
	return s.again + " --prefix " + process.ShellLine(prefix)
}

// addresses refuses what is no host:port in the values of a flag.
func addresses(flag string, all []string) error {
	for _, address := range all {
		host, port, err := net.SplitHostPort(address)
		if _, noNumber := strconv.ParseUint(port, 10, 16); err != nil || host == "" || noNumber != nil {
			return usagef("--%s %q: want host:port, such as 127.0.0.1:2181", flag, address)
		}
	}
	return nil
}

// masters reads --redlock; nil: it is not given, and private masters are started where a lock
// needs them.
func (f serverFlags) masters() (targets []redisconn.Target, err error) {
	for _, url := range f.redlock {
		t, err := redisconn.ParseURL(url)
		if err != nil {
			return nil, fmt.Errorf("--redlock: %w", err)
		}
		if slices.ContainsFunc(targets, func(other redisconn.Target) bool { return other.Addr == t.Addr }) {
			return nil, usagef("--redlock names %s twice: its masters must be independent", t.Addr)
		}
		targets = append(targets, t)
	}

	if n := len(targets); n > 0 && (n < 3 || n%2 == 0) {
		return nil, usagef("--redlock names %d masters: it takes an odd number of at least 3, for a majority", n)
	}
	return targets, nil
}

// start starts one of the servers on which rows are measured, or takes the user's. After an
// error nothing that it started runs.
func (s serverPlan) start(ctx context.Context, named namedServer) (*backend.Server, error) {
	choice, private := s.choice, starters(s.choice)
	if named.name != "" {
		choice, private = backend.OriginLocal, []backend.Starter{backend.Local{Program: named.program}}
	}
	server, err := backend.Start(ctx, choice, s.target, private...)
	if err == nil {
		err = fit(ctx, server)
	}
	if err != nil && named.name != "" {
		err = fmt.Errorf("server %s: %w", named.name, err)
	}
	return server, err
}

// fit finds out what a server is, and whether a market can live on it, or closes it.
func fit(ctx context.Context, server *backend.Server) error {
	err := server.Discover(ctx)
	if err == nil && server.Name != backend.OriginEmbedded {
		err = preflight(ctx, server)
	}
	if err != nil {
		return errors.Join(err, server.Close())
	}
	return nil
}

// lockServers is how the manifest names the servers of locks: by address, but a private
// ZooKeeper or etcd by version.
func lockServers(l *servers.Locks) map[string]string {
	shown := map[string]string{
		"redlock":   strings.Join(wording.Names(l.Masters, redisconn.Target.String), ","),
		"zookeeper": strings.Join(l.ZooKeeper, ","),
		"etcd":      strings.Join(l.Etcd, ","),
	}

	if l.PrivateZooKeeper != nil {
		shown["zookeeper"] = l.PrivateZooKeeper.Version
	}
	if l.PrivateEtcd != nil {
		shown["etcd"] = l.PrivateEtcd.Version
	}
	maps.DeleteFunc(shown, func(_, where string) bool { return where == "" })
	return shown
}

func preflight(ctx context.Context, server *backend.Server) error {
	do := func(conn *redisconn.Conn) error { return backend.Preflight(ctx, conn) }
	if server.Cluster() == nil {
		return redisconn.With(ctx, server.Target, do)
	}
	for _, master := range server.Cluster().Masters() {
		if err := redisconn.With(ctx, master, do); err != nil {
			return fmt.Errorf("a master of the cluster, %s: %w", master.Addr, err)
		}
	}
	return nil
}

// everyMaster connects to each master of a cluster, or to the only server.
func everyMaster(server *backend.Server) []redisconn.Dialer {
	if server.Cluster() == nil {
		return []redisconn.Dialer{server.Dialer("")}
	}
	return servers.Dialers(server.Cluster().Masters())
}

// onOneSlot refuses a market whose keys a Redis Cluster would spread over its slots.
func onOneSlot(server *backend.Server, keys market.Keys) error {
	prefix := keys.Prefix()
	if server.Cluster() == nil || redisconn.Slot(prefix) == redisconn.Slot(keys.Market()) {
		return nil
	}
	return usagef("--prefix %s: on a Redis Cluster the keys of a market must lie on one slot, which the text between "+
		"braces chooses: give a prefix such as %s", prefix, process.ShellLine("{"+strings.Trim(prefix, "{}:")+"}:"))
}
