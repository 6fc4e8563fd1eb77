package backend

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// TLSFiles names what a rediss:// connection needs beyond its URL. The zero value adds nothing.
type TLSFiles struct {
	CA         string // PEM file of the authorities to trust, instead of the system's
	Cert, Key  string // PEM files of a client certificate; both or neither
	ServerName string // the name in the server's certificate, where it is not the URL's host
}

// Apply adds the files to the target's TLS settings. The error names the file it could not use; it wraps
// [ErrURL] if the target does not use TLS at all, or if only one of Cert and Key is given.
func (f TLSFiles) Apply(t *Target) error {
	switch {
	case f == TLSFiles{}:
		return nil
	case t.TLS == nil:
		return fmt.Errorf("%w: TLS files need a rediss:// URL", ErrURL)
	case (f.Cert == "") != (f.Key == ""):
		return fmt.Errorf("%w: a client certificate and its key must be given together", ErrURL)
	}
	config := t.TLS.Clone()
	if f.ServerName != "" {
		config.ServerName = f.ServerName
	}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return fmt.Errorf("reading the TLS authorities: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return fmt.Errorf("reading the TLS authorities: %s holds no PEM certificate", f.CA)
		}
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return fmt.Errorf("reading the client certificate %s with key %s: %w", f.Cert, f.Key, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	t.TLS = config
	return nil
}
