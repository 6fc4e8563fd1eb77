package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/internal/servers"
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/container"
	"github.com/marketsim/marketsim/market/backend/embedded"
)

// serverFlags say where the market runs.
type serverFlags struct {
	url, choice, passwordFile string
	tls                       backend.TLSFiles
}

func (f *serverFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "redis", "",
		"`URL` of your server, or of any node of your cluster: redis://, rediss://\nor unix:// (default $REDIS_URL)")
	flags.StringVar(&f.passwordFile, "password-file", "", "`file` that holds the password (default $REDIS_PASSWORD)")
	flags.StringVar(&f.tls.CA, "cacert", "", "PEM `file` of the authorities that rediss:// trusts (default the system's)")
	flags.StringVar(&f.tls.Cert, "cert", "", "PEM `file` of the client certificate for rediss://")
	flags.StringVar(&f.tls.Key, "key", "", "PEM `file` of the client certificate's key")
	flags.StringVar(&f.tls.ServerName, "sni", "", "`name` in the server's certificate (default the URL's host)")
}

func (f *serverFlags) addBackend(cmd *cobra.Command) {
	f.add(cmd)
	names := append([]string{string(backend.NameURL)}, private()...)
	cmd.Flags().StringVar(&f.choice, "backend", "",
		"force a `kind` of server: "+english.WordSeries(names, "or")+"\n(default the first that works of a given URL, local, container and embedded)")
	complete(cmd, "backend", names)
}

// starters start a private server; the first that can is taken.
func starters() []backend.Starter {
	return []backend.Starter{
		backend.Local{},
		container.Starter{Image: os.Getenv("MARKETSIM_IMAGE")},
		embedded.Starter{},
	}
}

// several start private servers that belong together. They are started only for who asks for them.
func several() []backend.Starter {
	return []backend.Starter{servers.ClusterStarter{}}
}

// private are the names of the backends that marketsim starts.
func private() []string {
	var names []string
	for _, s := range slices.Concat(starters(), several()) {
		names = append(names, string(s.Name()))
	}
	return names
}

// source is the URL of the user's server and where it was given; empty when a private server is to be started.
func (f serverFlags) source() (url, from string) {
	switch {
	case f.url != "":
		return f.url, "--redis"
	case f.choice == "" || f.choice == string(backend.NameURL):
		return os.Getenv("REDIS_URL"), "REDIS_URL"
	}
	return "", ""
}

// config checks the flags, and reads the environment and the files that they name.
func (f serverFlags) config() (serverConfig, error) {
	c := serverConfig{choice: backend.Name(f.choice)}
	if f.url != "" && slices.Contains(private(), f.choice) {
		return c, usageError{
			fmt.Errorf("--redis names your server and --backend %s starts another: give one of them", f.choice),
		}
	}
	raw, from := f.source()
	if raw == "" {
		if f.passwordFile != "" || f.tls != (backend.TLSFiles{}) {
			return c, usageError{errors.New(
				"--password-file, --cacert, --cert, --key and --sni are for a server of yours: give --redis URL")}
		}
		return c, nil
	}
	target, err := backend.ParseURL(raw)
	if err != nil {
		return c, fmt.Errorf("%s: %w", from, err)
	}
	if err := f.tls.Apply(&target); err != nil {
		return c, usageError{err}
	}
	if target.Password, err = f.password(target.Password); err != nil {
		return c, err
	}
	c.target, c.again = &target, f.again(from, target)
	return c, nil
}

// again is the clean command for the same server, with the flags that were given and %s for the prefix. The password is
// not in it: where it was in the URL, it has to be in REDIS_PASSWORD.
func (f serverFlags) again(from string, target backend.Target) string {
	before, words := "", []string{"marketsim clean --prefix %s"}
	if target.Password != "" && f.passwordFile == "" && target.Password != os.Getenv("REDIS_PASSWORD") {
		before = "REDIS_PASSWORD=... "
	}
	if from == "--redis" {
		words = append(words, "--redis", quote(target.WithoutPassword()))
	}
	for _, flag := range []struct{ name, value string }{
		{"--password-file", f.passwordFile}, {"--cacert", f.tls.CA}, {"--cert", f.tls.Cert}, {"--key", f.tls.Key},
		{"--sni", f.tls.ServerName},
	} {
		if flag.value != "" {
			words = append(words, flag.name, quote(flag.value))
		}
	}
	return before + strings.Join(words, " ")
}

// password returns the password in the file if there is one, else the URL's, else the environment's.
func (f serverFlags) password(inURL string) (string, error) {
	if f.passwordFile == "" {
		return cmp.Or(inURL, os.Getenv("REDIS_PASSWORD")), nil
	}
	text, err := os.ReadFile(f.passwordFile)
	if err != nil {
		var path *fs.PathError // its text repeats the path, which may be a password that was put in the wrong place
		if errors.As(err, &path) {
			err = path.Err
		}
		return "", usageError{fmt.Errorf("--password-file: cannot be read: %w", err)}
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// serverConfig is the server that was asked for.
type serverConfig struct {
	choice backend.Name    // empty: the first that works
	target *backend.Target // the user's server; nil: a private one
	again  string          // the clean command for the user's server, with %s for the prefix
}

// clean is the command that removes what is left under a prefix on the user's server, to be pasted.
func (c serverConfig) clean(prefix string) string {
	return strings.Replace(c.again, "%s", quote(prefix), 1)
}

// pasteable returns err with the server in a hint of a package that does not know it.
func (c serverConfig) pasteable(err error, prefix string) error {
	if err == nil || c.again == "" {
		return err
	}
	return reworded(err, strings.ReplaceAll(err.Error(), "'marketsim clean --prefix "+prefix+"'", c.clean(prefix)))
}

// password is that of the user's server, or empty.
func (c serverConfig) password() string {
	if c.target == nil {
		return ""
	}
	return c.target.Password
}

// start starts or names the server and makes sure that a market can live there.
func (c serverConfig) start(ctx context.Context) (*backend.Server, error) {
	known := starters()
	if c.choice != "" {
		known = append(known, several()...)
	}
	server, err := backend.Start(ctx, c.choice, c.target, known...)
	if err != nil {
		return nil, err
	}
	if err := preflight(ctx, server); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
}

// preflight makes sure that a market can live on a server, or on each master of a cluster.
func preflight(ctx context.Context, server *backend.Server) error {
	if err := server.Discover(ctx); err != nil {
		return err
	}
	return eachMaster(ctx, server, func(conn *backend.Conn) error { return backend.Preflight(ctx, conn) })
}

// eachMaster calls do with a connection to a server, or to each master of a cluster.
func eachMaster(ctx context.Context, server *backend.Server, do func(*backend.Conn) error) error {
	with := func(dial func(context.Context) (*backend.Conn, error)) error {
		conn, err := dial(ctx)
		if err != nil {
			return err
		}
		return errors.Join(do(conn), conn.Close())
	}
	if server.Cluster() == nil {
		return with(server.Dial)
	}
	for _, master := range server.Cluster().Masters() {
		err := with(func(ctx context.Context) (*backend.Conn, error) { return backend.Dial(ctx, master) })
		if err != nil {
			return fmt.Errorf("a master of the cluster, %s: %w", master.Addr, err)
		}
	}
	return nil
}

// oneSlot refuses a prefix that spreads a market over a cluster's slots.
func oneSlot(server *backend.Server, prefix string) error {
	if server.Cluster() == nil || backend.Slot(prefix) == backend.Slot(prefix+"market:") {
		return nil
	}
	return usageError{fmt.Errorf("--prefix %s: on a Redis Cluster the keys of a market lie on one slot, that of what stands "+
		"between braces: give a prefix such as %s", prefix, quote("{"+strings.TrimSuffix(prefix, ":")+"}:"))}
}
