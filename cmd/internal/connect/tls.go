package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"strings"
)

// tlsOptions are the query options of every rediss URL.
var tlsOptions = []string{"tls_ca", "tls_cert", "tls_key", "tls_server_name", "tls_insecure"}

// tlsConfig returns the TLS configuration of the URL, and nil for a URL without TLS.
func (u *redisURL) tlsConfig(options Options) (*tls.Config, error) {
	if !u.tls() {
		for _, name := range tlsOptions {
			if _, given := u.Option(name); given {
				return nil, badURL("its option %s is for TLS; write rediss instead of redis", name)
			}
		}
		return nil, nil
	}
	// Without a server name go-redis checks the certificate for the host that it dials.
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.option("tls_server_name")}
	switch u.option("tls_insecure") {
	case "", "false":
	case "true":
		config.InsecureSkipVerify = true
	default:
		return nil, badURL("its option tls_insecure is neither true nor false")
	}
	if err := u.trust(config, options); err != nil {
		return nil, err
	}
	return config, u.identify(config, options)
}

// trust sets the authorities for the server's certificate.
func (u *redisURL) trust(config *tls.Config, options Options) error {
	name := u.option("tls_ca")
	if name == "" {
		return nil
	}
	if config.InsecureSkipVerify {
		return badURL("tls_insecure=true checks no certificate, so tls_ca would mean nothing; give one of them")
	}
	const want = "give the certificate of the authority that signed the server's, in PEM form"
	pem, err := readFile("tls_ca", name, want, options)
	if err != nil {
		return err
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return badURL("tls_ca: %q holds no certificate; %s", name, want)
	}
	return nil
}

// identify sets the client's certificate.
func (u *redisURL) identify(config *tls.Config, options Options) error {
	certName, keyName := u.option("tls_cert"), u.option("tls_key")
	switch {
	case certName == "" && keyName == "":
		return nil
	case certName == "" || keyName == "":
		return badURL("tls_cert and tls_key need each other; give the client's certificate and its private key, in PEM form")
	}
	cert, err := readFile("tls_cert", certName, "give the client's certificate in PEM form", options)
	if err != nil {
		return err
	}
	key, err := readFile("tls_key", keyName, "give the private key of the client's certificate in PEM form", options)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return badURL("tls_cert and tls_key: %q and %q are not a certificate and its private key in PEM form: %s",
			certName, keyName, strings.TrimPrefix(err.Error(), "tls: "))
	}
	config.Certificates = []tls.Certificate{pair}
	return nil
}

func readFile(option, name, want string, options Options) ([]byte, error) {
	content, err := options.ReadFile(name)
	if err == nil {
		return content, nil
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // the message already has the name
	}
	return nil, badURL("%s: %q cannot be read (%s); %s", option, name, err, want)
}
