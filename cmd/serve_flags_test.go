package cmd

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pair is a certificate that signs itself, and its key.
type pair struct{ certificate, key string }

func testPair(t *testing.T, name string) pair {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{
		name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(365 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pair{string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))}
}

// What is wrong with a flag of serve is told in one line, before anything listens.
func TestServeSaysWhatIsWrongWithItsFlags(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one, other := testPair(t, "one"), testPair(t, "other")
	certificate, key, otherKey := file("c", one.certificate), file("k", one.key), file("o", other.key)
	short, none := file("short", "secret"), file("none", "# nothing yet\n")
	for _, test := range []struct{ args, want string }{
		{"--listen " +
			":8080", `--listen ":8080" names no host; write 127.0.0.1:8080 for this machine only, or 0.0.0.0:8080 for every network`},
		{"--admin " +
			":9090", `--admin ":9090" names no host; write 127.0.0.1:9090 for this machine only, or 0.0.0.0:9090 for every network`},
		{"now", "`limitctl serve` takes no argument, but \"now\" was given"},
		{"--listen off", "--listen off needs --grpc ADDRESS, or nobody can ask"},
		{"--listen 8080", `--listen "8080" is not HOST:PORT or unix:PATH; write for example 127.0.0.1:8080`},
		{"--listen localhost:99999", `--listen "localhost:99999" has no port from 0 to 65535`},
		{"--listen unix:", `--listen names no socket; write unix:/run/limitctl/http.sock`},
		{"--listen unix:" + none, "--listen unix:" + none + " is a file, not a socket"},
		{"--listen unix:" + strings.Repeat("x", 108), "--listen unix:" + strings.Repeat("x", 108) +
			" has more than 107 bytes"},
		{"--check-config --admin unix:" + none, "--admin unix:" + none + " is a file, not a socket"},
		{"--drain 0s", `--drain 0s is not positive; give a duration such as 5s`},
		{"--drain-delay 5s", `--drain-delay 5s has to be from 0 to less than --drain, which is 5s`},
		{"--max-in-flight 0", `--max-in-flight 0 has to be at least 1`},
		{"--tls-cert x", `--tls-cert and --tls-key belong together; give both`},
		{"--tls-client-ca x", `--tls-client-ca needs --tls-cert and --tls-key`},
		{"--tls-cert " + certificate + " --tls-key " + otherKey, "TLS: the certificate " + certificate +
			" and the key " + otherKey + ": "},
		{"--tls-cert " + certificate + " --tls-key " + key + " --tls-client-ca " + none, "TLS: no certificate is in " +
			none},
		{"--token-file " + short, "--token-file " + short +
			": line 1: an access token has 6 characters, and fewer than 16 can be guessed"},
		{"--token-file " + none, "--token-file " + none + ": there is no access token"},
		{"--log-level loud", `--log-level "loud" is not known; give debug, info, warn or error`},
	} {
		w := newWorld(t)
		_, stderr := w.run(t, exitUsage, append([]string{"serve"}, strings.Fields(test.args)...)...)
		if !strings.HasPrefix(stderr, "limitctl: ") || !strings.Contains(stderr, test.want) ||
			strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: %q, want %q", test.args, stderr, test.want)
		}
	}
}
