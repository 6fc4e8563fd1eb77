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

	"github.com/spf13/cobra"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/container"
	"github.com/marketsim/marketsim/market/backend/embedded"
)

// serverFlags say where the market runs.
type serverFlags struct {
	url, choice, passwordFile string
	tls                       backend.TLSFiles

	password string // of the target, once that is known
}

func (f *serverFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.url, "redis", "", "`URL` of your server: redis://, rediss:// or unix:// (default $REDIS_URL)")
	flags.StringVar(&f.passwordFile, "password-file", "", "`file` that holds the password (default $REDIS_PASSWORD)")
	flags.StringVar(&f.tls.CA, "cacert", "", "PEM `file` of the authorities that rediss:// trusts (default the system's)")
	flags.StringVar(&f.tls.Cert, "cert", "", "PEM `file` of the client certificate for rediss://")
	flags.StringVar(&f.tls.Key, "key", "", "PEM `file` of the client certificate's key")
	flags.StringVar(&f.tls.ServerName, "sni", "", "`name` in the server's certificate (default the URL's host)")
}

func (f *serverFlags) addBackend(cmd *cobra.Command) {
	f.add(cmd)
	cmd.Flags().StringVar(&f.choice, "backend", "",
		"force a `kind` of server: url, local, container or embedded (default the first that works)")
	complete(cmd, "backend", []string{"url", "local", "container", "embedded"})
}

// source is the URL of the user's server and where it was given; empty when a private server is to be started.
func (f *serverFlags) source() (url, from string) {
	switch {
	case f.url != "":
		return f.url, "--redis"
	case f.choice == "" || f.choice == string(backend.KindURL):
		return os.Getenv("REDIS_URL"), "REDIS_URL"
	}
	return "", ""
}

// target is the server given by URL, or nil.
func (f *serverFlags) target() (*backend.Target, error) {
	private := []string{string(backend.KindLocal), string(backend.KindContainer), string(backend.KindEmbedded)}
	if f.url != "" && slices.Contains(private, f.choice) {
		return nil, usageError{fmt.Errorf("--redis names your server and --backend %s starts another: give one of them", f.choice)}
	}
	raw, from := f.source()
	if raw == "" {
		if f.passwordFile != "" || f.tls != (backend.TLSFiles{}) {
			return nil, usageError{errors.New("--password-file, --cacert, --cert, --key and --sni are for a server of yours: give --redis URL")}
		}
		return nil, nil
	}
	target, err := backend.ParseURL(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	if err := f.tls.Apply(&target); err != nil {
		return nil, usageError{err}
	}
	if target.Password, err = f.findPassword(target.Password); err != nil {
		return nil, err
	}
	f.password = target.Password
	return &target, nil
}

// findPassword returns the password in the file if there is one, else the URL's, else the environment's.
func (f *serverFlags) findPassword(inURL string) (string, error) {
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

// start starts or names the server and makes sure that a market can live there.
func (f *serverFlags) start(ctx context.Context) (*backend.Server, error) {
	target, err := f.target()
	if err != nil {
		return nil, err
	}
	server, err := backend.Start(ctx, backend.Kind(f.choice), target,
		backend.Local{}, container.Starter{Image: os.Getenv("MARKETSIM_IMAGE")}, embedded.Starter{})
	if err != nil {
		return nil, err
	}
	if err := preflight(ctx, server); err != nil {
		return nil, errors.Join(err, server.Close())
	}
	return server, nil
}

func preflight(ctx context.Context, server *backend.Server) (err error) {
	conn, err := server.Dial(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	return backend.Preflight(ctx, conn)
}
