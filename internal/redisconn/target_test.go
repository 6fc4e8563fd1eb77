package redisconn_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

// A URL means what it says, the rest is the default, and it is shown without its password.
func TestParseURL(t *testing.T) {
	for _, tc := range []struct {
		url, network, addr, user, password string
		db                                 int
		tls                                bool
		shown                              string
	}{
		{url: "redis://host", network: "tcp", addr: "host:6379", shown: "redis://host:6379"},
		{url: "redis://:7000", network: "tcp", addr: "localhost:7000", shown: "redis://localhost:7000"},
		{url: "redis://[::1]:7000/2", network: "tcp", addr: "[::1]:7000", db: 2,
			shown: "redis://[::1]:7000?db=2"},
		{url: "redis://host?db=3", network: "tcp", addr: "host:6379", db: 3,
			shown: "redis://host:6379?db=3"},
		{url: "redis://bob:p%40ss@host/1", network: "tcp", addr: "host:6379",
			user: "bob", password: "p@ss", db: 1,
			shown: "redis://bob:xxxxx@host:6379?db=1"},
		{url: "redis://:pass@host", network: "tcp", addr: "host:6379", password: "pass",
			shown: "redis://:xxxxx@host:6379"},
		{url: "redis://pass@host", network: "tcp", addr: "host:6379", user: "pass",
			shown: "redis://xxxxx@host:6379"},
		{url: "rediss://host?skip_verify=true", network: "tcp", addr: "host:6379", tls: true,
			shown: "rediss://host:6379?skip_verify=true"},
		{url: "unix:///run/redis.sock", network: "unix", addr: "/run/redis.sock",
			shown: "unix:///run/redis.sock"},
		{url: "unix://bob:pass@/run/r%40.sock?db=4", network: "unix", addr: "/run/r@.sock",
			user: "bob", password: "pass",
			db: 4, shown: "unix://bob:xxxxx@/run/r%40.sock?db=4"},
	} {
		t.Run(tc.url, func(t *testing.T) {
			got := testkit.Must(redisconn.ParseURL(tc.url))(t)
			if got.Network != tc.network || got.Addr != tc.addr || got.Username != tc.user ||
				got.Password != tc.password || got.DB != tc.db || (got.TLS != nil) != tc.tls {
				t.Errorf("wrong parts: %q %q %q %q %d %v",
					got.Network, got.Addr, got.Username, got.Password, got.DB, got.TLS)
			}

			if got.TLS != nil && (!got.TLS.InsecureSkipVerify || got.TLS.ServerName != "host") {
				t.Error("skip_verify or the server's name is missing")
			}

			if got.String() != tc.shown {
				t.Errorf("shown as %q, want %q", got.String(), tc.shown)
			}

			again := parse(t, got.WithoutPassword())
			sameTLS := (again.TLS == nil) == (got.TLS == nil) &&
				(got.TLS == nil || again.TLS.InsecureSkipVerify == got.TLS.InsecureSkipVerify)
			if again.Addr != got.Addr || again.DB != got.DB || !sameTLS {
				t.Errorf("%q typed again is another server: %v", got.WithoutPassword(), again)
			}
		})
	}
}

// What is no URL of a server is refused with what it should be instead, and no secret in it
// is repeated.
func TestParseURLRefuses(t *testing.T) {
	for _, tc := range []struct{ url, says string }{
		{"", "must start with"},
		{"host:6379", "must start with redis://, rediss:// (TLS) or unix://: type redis://host:6379"},
		{"127.0.0.1:7403", "type redis://127.0.0.1:7403"},
		{"localhost:7403", "type redis://localhost:7403"},
		{"[::1]:6379", "type redis://[::1]:6379"},
		{"::1", "type redis://[::1]:6379"},
		{":6379", "type redis://localhost:6379"},
		{"10.0.0.1", "type redis://10.0.0.1"},
		{"localhost", "type redis://localhost"},
		{"SECRET", "type redis:// in front of it, if it is your server's name"},
		{"SECRET.1/0", "type redis:// in front of it, if it is your server's name"},
		{"redis-1.internal_net:6379", "type redis://redis-1.internal_net:6379"},
		{"host:6379/0", "type redis://host:6379/0"},
		{"//host:6379/", "type redis://host:6379"},
		{"/", "must start with"},
		{"/run/redis/redis.sock", "type unix:///run/redis/redis.sock"},
		{"user:SECRET@host:6379", "type redis:// in front of it; special characters"},
		{":SECRET@10.0.0.1:6379", "type redis:// in front of it"},
		{"user:12/SECRET@host", "type redis:// in front of it"},
		{"user:SECRET", "type redis://HOST:PORT"},
		{"host:6379?password=SECRET", "type redis://HOST:PORT"},
		{"host:6379:SECRET", "type redis://HOST:PORT"},
		{"host 6379", "type redis://HOST:PORT"},
		{"http://u:SECRET@host", "must start with"},
		{"redis://user:SECRET%zz@host", "percent-encoded"},
		{"redis://user:12#SECRET@host", "percent-encoded"},
		{"redis://user:12/SECRET@host", "percent-encoded"},
		{"redis://user:12?SECRET@host", "percent-encoded"},
		{"redis://user:SECRET/x@host", "percent-encoded"},
		{"redis://user:SECRET", "percent-encoded"},
		{"redis://u:SECRET@host\x7f", "percent-encoded"},
		{"redis:host:6379", "not of the form"},
		{"redis:///1", "not of the form"},
		{"redis://host:0", "its port must be from 1 to 65535"},
		{"redis://host:65536", "its port must be from 1 to 65535"},
		{"redis://host:port", "must be a port from 1 to 65535"},
		{"redis://user:SECRET@host:65536", "its port must be from 1 to 65535"},
		{"redis://host/SECRET", "not of the form"},
		{"redis://host/1/2", "not of the form"},
		{"redis://host/-1", "not of the form"},
		{"redis://host?db=SECRET", "not of the form"},
		{"unix://host/run/redis.sock", "not of the form"},
		{"unix://u:SECRET@", "not of the form"},
		{"redis://host?max_retries=3", "a query parameter"},
		{"redis://host?pool_size=10", "a query parameter"},
		{"redis://host?skip_verify=true", "not of the form"},
		{"rediss://host?skip_verify=SECRET", "not of the form"},
		{"redis://host?SECRET=1", "a query parameter"},
	} {
		t.Run(tc.url, func(t *testing.T) {
			got, err := redisconn.ParseURL(tc.url)
			if !errors.Is(err, redisconn.ErrURL) {
				t.Fatalf("got %v, want ErrURL", err)
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %q does not say %q", err, tc.says)
			}
			if strings.Contains(err.Error(), "SECRET") || got != (redisconn.Target{}) {
				t.Errorf("error %q or target %v shows the secret", err, got)
			}
		})
	}
}

func TestTargetIsPrintedWithoutPassword(t *testing.T) {
	target := testkit.Must(redisconn.ParseURL("redis://bob:SECRET@host/1"))(t)
	text := testkit.Must(json.Marshal(map[string]any{"target": target, "pointer": &target}))(t)
	out := string(text)
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		out += fmt.Sprintf(format, target)
		out += fmt.Sprintf(format, &target)
		out += fmt.Sprintf(format, struct{ T redisconn.Target }{target})
	}
	if strings.Contains(out, "SECRET") || strings.Contains(out, fmt.Sprintf("%x", "SECRET")) {
		t.Errorf("the password shows in %s", out)
	}
}

func FuzzParseURL(f *testing.F) {
	const secret = "qLmZ7secret"
	f.Add("redis://user:", "", "@host:6379/0")
	f.Add("redis://user:12", "?", "@host")
	f.Add("rediss://", "%zz", "#@host")
	f.Add("unix://:", "/", "@/run/redis.sock?db=1")
	f.Add("redis://[", "]", "@host")
	f.Add("redis:", "//", "@@host")

	f.Fuzz(func(t *testing.T, before, middle, after string) {
		// The secret stands where a password would: after a user's colon, with what the
		// user forgot to encode.
		got, err := redisconn.ParseURL(before + ":" + secret + middle + secret + "@" + after)
		if err != nil {
			if !errors.Is(err, redisconn.ErrURL) || strings.Contains(err.Error(), secret) {
				t.Errorf("error %q", err)
			}
			return
		}

		if strings.Contains(fmt.Sprintf("%v %+v %#v", got, got, got), secret) {
			t.Errorf("target %v", got)
		}
	})
}

// certificate writes a self-signed certificate for 127.0.0.1, which is its own
// authority, and its key.
func certificate(t testing.TB) (cert, key string) {
	t.Helper()
	private := testkit.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "marketsim test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}

	public := &private.PublicKey
	der := testkit.Must(x509.CreateCertificate(rand.Reader, template, template, public, private))(t)
	keyDER := testkit.Must(x509.MarshalPKCS8PrivateKey(private))(t)

	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	return cert, key
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	testkit.Succeeds(t, os.WriteFile(path, data, 0o600))
}

// tlsServer starts a server with a port that speaks TLS, and wants client certificates
// only if authClients is yes. The target is that port.
func tlsServer(t *testing.T, cert, key, authClients string) redisconn.Target {
	t.Helper()
	target := parse(t, "rediss://127.0.0.1")
	testkit.Succeeds(t, (redisconn.TLSFiles{CA: cert, Cert: cert, Key: key}).Apply(&target))

	var server *backend.Server
	err := process.OnFreePorts(t.Context(), 1, func(ports []string) (err error) {
		target.Addr = net.JoinHostPort("127.0.0.1", ports[0])
		local := backend.Local{Args: []string{
			"--tls-port", ports[0], "--tls-cert-file", cert, "--tls-key-file", key,
			"--tls-ca-cert-file", cert, "--tls-auth-clients", authClients,
		}}
		server, err = local.Start(t.Context())
		return err
	})
	if errors.Is(err, process.ErrUnavailable) {
		testkit.Require(t, "redis", err.Error())
	}

	testkit.Succeeds(t, err)
	t.Cleanup(func() {
		testkit.Succeeds(t, server.Close())
	})

	target.Password = server.Target.Password
	return target
}

func parse(t testing.TB, url string) redisconn.Target {
	t.Helper()
	return testkit.Must(redisconn.ParseURL(url))(t)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	server := tlsServer(t, cert, key, "no")
	addr := server.Addr
	login := ":" + server.Password + "@"

	trusting := parse(t, "rediss://"+login+addr)
	testkit.Succeeds(t, (redisconn.TLSFiles{CA: cert}).Apply(&trusting))
	conn := testkit.Must(redisconn.To(trusting).Dial(t.Context()))(t)
	defer conn.Close()
	testkit.Succeeds(t, conn.Set(t.Context(), "k", "v", 0).Err())
	sent := int64(len("*3\r\n$3\r\nset\r\n$1\r\nk\r\n$1\r\nv\r\n"))
	if got := conn.Stats.Snapshot(); got.RoundTrips != 1 || got.BytesSent != sent {
		t.Errorf("over TLS one SET counts as %+v", got)
	}

	named := trusting
	named.TLS = named.TLS.Clone()
	named.TLS.ServerName = "other.example"
	skipping := parse(t, "rediss://"+login+addr+"?skip_verify=true")
	for _, tc := range []struct {
		name   string
		target redisconn.Target
		is     error
		says   string
	}{
		{"plaintext to a TLS port", parse(t, "redis://"+addr), redisconn.ErrUnreachable, "use rediss://"},
		{"unknown authority", parse(t, "rediss://"+addr), redisconn.ErrTLS, "--cacert"},
		{"another name", named, redisconn.ErrTLS, "--sni"},
		{"not verified", skipping, nil, ""},
		{"TLS to a plaintext port", parse(t, "rediss://"+testkit.Local(t).Target.Addr), redisconn.ErrTLS,
			"use redis:// instead of rediss://"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			testkit.DialFails(t, tc.target, tc.is, tc.says)
		})
	}
}

func TestTLSClientCertificate(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	target := tlsServer(t, cert, key, "yes")
	conn := testkit.Must(redisconn.To(target).Dial(t.Context()))(t)
	testkit.Succeeds(t, conn.Close())
	without := parse(t, "rediss://"+target.Addr)
	testkit.Succeeds(t, (redisconn.TLSFiles{CA: cert}).Apply(&without))
	testkit.DialFails(t, without, redisconn.ErrTLS, "--cert")
}

func TestTLSFilesErrors(t *testing.T) {
	cert, key := certificate(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	write(t, empty, nil)

	for _, tc := range []struct {
		name  string
		url   string
		files redisconn.TLSFiles
		is    error
		says  string
	}{
		{"nothing", "redis://host", redisconn.TLSFiles{}, nil, ""},
		{"no TLS", "redis://host", redisconn.TLSFiles{CA: cert}, redisconn.ErrURL, "rediss://"},
		{
			"certificate without key", "rediss://host", redisconn.TLSFiles{Cert: cert},
			redisconn.ErrURL, "together",
		},
		{
			"key without certificate", "rediss://host", redisconn.TLSFiles{Key: key},
			redisconn.ErrURL, "together",
		},
		{"missing CA", "rediss://host", redisconn.TLSFiles{CA: empty + "x"}, os.ErrNotExist, empty + "x"},
		{
			"empty CA", "rediss://host", redisconn.TLSFiles{CA: empty}, nil,
			empty + " holds no PEM certificate",
		},
		{"bad pair", "rediss://host", redisconn.TLSFiles{Cert: empty, Key: key}, nil, empty},
	} {
		t.Run(tc.name, func(t *testing.T) {
			target := parse(t, tc.url)
			err := tc.files.Apply(&target)
			if tc.says == "" && err != nil {
				t.Fatal(err)
			}
			if tc.says == "" {
				return
			}

			// What is wrong inside a file has no sentinel error: only its words are compared.
			said := err != nil && strings.Contains(err.Error(), tc.says)
			if !said || tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("got %v, want %v saying %q", err, tc.is, tc.says)
			}
		})
	}
}
