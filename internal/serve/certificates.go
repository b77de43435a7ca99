package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/poll"
)

// Certificates are the certificate of TLS listeners and the authorities of client certificates. They are safe for
// concurrent use; Look is for one goroutine.
type Certificates struct {
	*poll.Source[[][]byte]
	paths   []string
	inForce atomic.Pointer[certificate]
}

// certificate is the result of one reading.
type certificate struct {
	pair    tls.Certificate
	clients *x509.CertPool // nil: clients need no certificate
}

// ReadCertificates reads a certificate and its key from two files. Unless the third path is empty, clients need a
// certificate of an authority in that file.
//
// Look reads the files again. If they do not fit together, such as during a change, the old ones stay in force.
func ReadCertificates(certificate, key, clients string, read func(path string) ([]byte, error)) (*Certificates, error) {
	c := &Certificates{paths: []string{certificate, key}}
	if clients != "" {
		c.paths = append(c.paths, clients)
	}
	c.Source = poll.Files(read, c.use, c.paths...)
	_, err := c.Look(context.Background(), false)
	return c, err
}

// use puts the contents of the files in force.
func (c *Certificates) use(texts [][]byte) (err error) {
	read := new(certificate)
	if read.pair, err = tls.X509KeyPair(texts[0], texts[1]); err != nil {
		return fmt.Errorf("the certificate %s and the key %s: %w", c.paths[0], c.paths[1], err)
	}
	if len(texts) > 2 {
		if read.clients = x509.NewCertPool(); !read.clients.AppendCertsFromPEM(texts[2]) {
			return errors.New("no certificate is in " + c.paths[2])
		}
	}
	c.inForce.Store(read)
	return nil
}

// Expires returns the end of the certificate in force.
func (c *Certificates) Expires() time.Time { return c.inForce.Load().pair.Leaf.NotAfter }

// Config returns the configuration for listeners with these protocols. Each handshake uses the certificate that is
// then in force.
func (c *Certificates) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			now := c.inForce.Load()
			config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, Certificates: []tls.Certificate{
				now.pair}}
			if now.clients != nil {
				config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, now.clients
				config.SessionTicketsDisabled = true // a resumed session would survive a change of the authorities
			}
			return config, nil
		},
	}
}

// listener adds TLS with HTTP/2, for servers that do not do it themselves.
func (c *Certificates) listener(inner net.Listener) net.Listener {
	return tls.NewListener(inner, c.Config("h2"))
}
