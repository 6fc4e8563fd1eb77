package backend_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/backendtest"
)

// certificate writes a self-signed certificate for 127.0.0.1, which is its own authority, and its key.
func certificate(t testing.TB) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "marketsim test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write(t, cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	write(t, key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	return cert, key
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// tlsServer starts a server whose only port speaks TLS, and wants client certificates only if told so.
func tlsServer(t *testing.T, cert, key, authClients string) *backend.Server {
	t.Helper()
	target := parse(t, "rediss://127.0.0.1")
	if err := (backend.TLSFiles{CA: cert, Cert: cert, Key: key}).Apply(&target); err != nil {
		t.Fatal(err)
	}
	return backendtest.Start(t, backend.Local{TLS: target.TLS, Args: []string{"--tls-cert-file", cert,
		"--tls-key-file", key, "--tls-ca-cert-file", cert, "--tls-auth-clients", authClients}})
}

func parse(t testing.TB, url string) backend.Target {
	t.Helper()
	target, err := backend.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func TestTLS(t *testing.T) {
	cert, key := certificate(t)
	addr := tlsServer(t, cert, key, "no").Target.Addr

	trusting := parse(t, "rediss://"+addr)
	if err := (backend.TLSFiles{CA: cert}).Apply(&trusting); err != nil {
		t.Fatal(err)
	}
	conn, err := backend.Dial(t.Context(), trusting)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got := conn.Stats.Snapshot(); got.RoundTrips != 1 || got.BytesSent != int64(len("*3\r\n$3\r\nset\r\n$1\r\nk\r\n$1\r\nv\r\n")) {
		t.Errorf("over TLS one SET counts as %+v", got)
	}

	named := trusting
	named.TLS = named.TLS.Clone()
	named.TLS.ServerName = "other.example"
	skipping := parse(t, "rediss://"+addr+"?skip_verify=true")
	for _, tc := range []struct {
		name   string
		target backend.Target
		is     error
		says   string
	}{
		{"plaintext to a TLS port", parse(t, "redis://"+addr), backend.ErrUnreachable, "use rediss://"},
		{"unknown authority", parse(t, "rediss://"+addr), backend.ErrTLS, "--cacert"},
		{"another name", named, backend.ErrTLS, "--sni"},
		{"not verified", skipping, nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) { dialFails(t, tc.target, tc.is, tc.says) })
	}
}

func TestTLSToPlaintextPort(t *testing.T) {
	addr := backendtest.Local(t).Target.Addr
	dialFails(t, parse(t, "rediss://"+addr), backend.ErrTLS, "use redis:// instead of rediss://")
}

func TestTLSClientCertificate(t *testing.T) {
	cert, key := certificate(t)
	s := tlsServer(t, cert, key, "yes")
	backendtest.Dial(t, s)
	without := parse(t, "rediss://"+s.Target.Addr)
	if err := (backend.TLSFiles{CA: cert}).Apply(&without); err != nil {
		t.Fatal(err)
	}
	dialFails(t, without, backend.ErrTLS, "--cert")
}

func TestTLSFilesErrors(t *testing.T) {
	cert, key := certificate(t)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	write(t, empty, nil)
	for _, tc := range []struct {
		name  string
		url   string
		files backend.TLSFiles
		is    error
		says  string
	}{
		{"nothing", "redis://host", backend.TLSFiles{}, nil, ""},
		{"no TLS", "redis://host", backend.TLSFiles{CA: cert}, backend.ErrURL, "rediss://"},
		{"certificate without key", "rediss://host", backend.TLSFiles{Cert: cert}, backend.ErrURL, "together"},
		{"key without certificate", "rediss://host", backend.TLSFiles{Key: key}, backend.ErrURL, "together"},
		{"missing CA", "rediss://host", backend.TLSFiles{CA: empty + "x"}, os.ErrNotExist, empty + "x"},
		{"empty CA", "rediss://host", backend.TLSFiles{CA: empty}, nil, empty + " holds no PEM certificate"},
		{"bad pair", "rediss://host", backend.TLSFiles{Cert: empty, Key: key}, nil, empty},
	} {
		t.Run(tc.name, func(t *testing.T) {
			target := parse(t, tc.url)
			err := tc.files.Apply(&target)
			if tc.says == "" && err != nil {
				t.Fatal(err)
			}
			if tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says) || tc.is != nil && !errors.Is(err, tc.is)) {
				t.Errorf("got %v, want %v saying %q", err, tc.is, tc.says)
			}
		})
	}
}
