package redisserver

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"strings"
)

// tlsConfig returns the TLS configuration of the URL, and nil for a URL without TLS.
func (u *URL) tlsConfig(a Access) (*tls.Config, error) {
	if !u.TLS {
		return nil, nil
	}
	// Without a server name go-redis checks the certificate for the host that it dials.
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.option("tls_server_name"),
		InsecureSkipVerify: u.option("tls_insecure") == "true"}
	authority, cert, key := u.option("tls_ca"), u.option("tls_cert"), u.option("tls_key")
	switch {
	case authority != "" && config.InsecureSkipVerify:
		return nil, BadURL("tls_insecure=true checks no certificate, so tls_ca would mean nothing; give one of them")
	case (cert == "") != (key == ""):
		return nil, BadURL("tls_cert and tls_key need each other; give the client's certificate and its private key, in PEM form")
	}
	if authority != "" {
		const want = "give the certificate of the authority that signed the server's, in PEM form"
		pem, err := a.readFile("tls_ca", authority, want)
		if err != nil {
			return nil, err
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, BadURL("tls_ca: %q holds no certificate; %s", authority, want)
		}
	}
	if cert == "" {
		return config, nil
	}
	certificate, err := a.readFile("tls_cert", cert, "give the client's certificate in PEM form")
	if err != nil {
		return nil, err
	}
	private, err := a.readFile("tls_key", key, "give the private key of the client's certificate in PEM form")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, private)
	if err != nil {
		return nil, BadURL("tls_cert and tls_key: %q and %q are not a certificate and its private key in PEM form: %s", cert, key,
			strings.TrimPrefix(err.Error(), "tls: "))
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

func (a Access) readFile(option, name, want string) ([]byte, error) {
	content, err := a.ReadFile(name)
	if err == nil {
		return content, nil
	}
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // the message already has the name
	}
	return nil, BadURL("%s: %q cannot be read (%s); %s", option, name, err, want)
}
