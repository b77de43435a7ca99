package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

// Certificates are what TLS doors show, and whose client certificates they accept. They are safe
// for concurrent use; Refresh is for one goroutine.
type Certificates struct {
	files   *watched
	inForce atomic.Pointer[certificate]
}

// certificate is what was read at one time.
type certificate struct {
	pair    tls.Certificate
	clients *x509.CertPool // nil: clients need no certificate
}

// ReadCertificates returns the certificate and the key of two files, and the authorities of the
// third, of which clients then need a certificate, unless its path is empty.
func ReadCertificates(certificate, key, clients string, read func(path string) ([]byte, error)) (*Certificates, error) {
	c := &Certificates{files: &watched{read: read, paths: []string{certificate, key}}}
	if clients != "" {
		c.files.paths = append(c.files.paths, clients)
	}
	_, err := c.Refresh()
	return c, err
}

// Refresh reads the files again if they have changed, and reports whether others are in force.
// With files that do not fit together, as while they are being written, those from before stay,
// and each cause is told once.
func (c *Certificates) Refresh() (changed bool, err error) { return c.files.refresh(c.use) }

// Stale is why the files cannot be read again, empty if they can.
func (c *Certificates) Stale() string { return c.files.stale() }

// use puts in force what the files hold.
func (c *Certificates) use(texts [][]byte) (err error) {
	read := new(certificate)
	if read.pair, err = tls.X509KeyPair(texts[0], texts[1]); err != nil {
		return fmt.Errorf("the certificate %s and the key %s: %w", c.files.paths[0], c.files.paths[1], err)
	}
	if len(texts) > 2 {
		if read.clients = x509.NewCertPool(); !read.clients.AppendCertsFromPEM(texts[2]) {
			return errors.New("no certificate is in " + c.files.paths[2])
		}
	}
	c.inForce.Store(read)
	return nil
}

// Expires is when the certificate in force ends.
func (c *Certificates) Expires() time.Time { return c.inForce.Load().pair.Leaf.NotAfter }

// warnBefore is how long before its end a certificate is old enough for a warning, unless it is
// one of a short life.
const warnBefore = 14 * 24 * time.Hour

// Old reports whether the certificate should have been renewed by now: the last sixth of its
// life has begun, or its last two weeks.
func (c *Certificates) Old(now time.Time) bool {
	leaf := c.inForce.Load().pair.Leaf
	return leaf.NotAfter.Sub(now) < min(warnBefore, leaf.NotAfter.Sub(leaf.NotBefore)/6)
}

// Config is for doors that speak these protocols. Each handshake uses what is in force then.
func (c *Certificates) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now := c.inForce.Load()
			config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{now.pair}}
			if now.clients != nil {
				config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, now.clients
				config.SessionTicketsDisabled = true // a resumed session would outlive a change of the authorities
			}
			return config, nil
		},
	}
}

// listener speaks HTTP/2 over TLS, for servers that do not do it themselves.
func (c *Certificates) listener(inner net.Listener) net.Listener {
	return tls.NewListener(inner, c.Config("h2"))
}
