package connect

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
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

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// take takes one unit of a subject's limit of 1000, and returns the usage.
func take(url, subject string, timeout time.Duration) (used int64, err error) {
	backend, _, err := Open(url, Options{Prefix: "rl", Timeout: timeout, ReadFile: os.ReadFile})
	if err != nil {
		return 0, err
	}
	defer backend.Close()
	limit := store.Limit{Count: 1000, Period: store.MaxPeriod} // so that nothing expires meanwhile
	d, err := storecall.New(backend).Take(context.Background(), store.Key{Subject: subject}, limit, 1)
	return d.Used, err
}

const long = 10 * time.Second // for calls that must be answered

// authority signs certificates for a test.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// sign writes NAME.pem and NAME.key; the authority signs its own certificate itself.
func (a *authority) sign(name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: name}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der := must(x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer))
	for file, block := range map[string]*pem.Block{
		a.file(name + ".pem"): {Type: "CERTIFICATE", Bytes: der},
		a.file(name + ".key"): {Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))},
	} {
		must(0, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	return must(x509.ParseCertificate(der)), key
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

// serve signs the certificates of a server named limits.test and of a client, and returns the server's configuration.
func (a *authority) serve(addresses ...net.IP) []string {
	a.sign("server", &x509.Certificate{DNSNames: []string{"limits.test"}, IPAddresses: addresses,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}})
	a.sign("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return []string{"--tls-cert-file", a.file("server.pem"), "--tls-key-file", a.file("server.key"),
		"--tls-ca-cert-file", a.file("ca.pem"), "--tls-auth-clients", "yes"}
}

// query returns the query options of a client that the server accepts.
func (a *authority) query() string {
	return fmt.Sprintf("?tls_ca=%s&tls_cert=%s&tls_key=%s", a.file("ca.pem"), a.file("client.pem"),
		a.file("client.key"))
}

// The names and addresses from a Cluster and from Sentinels are checked, too.
func TestTLS(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	config := a.serve(net.IPv4(127, 0, 0, 1))
	for kind, start := range map[string]func(t *testing.T) (url string){
		"server": func(t *testing.T) string { return "rediss://" + redistest.Start(t, config...).Addr },
		"cluster": func(t *testing.T) string {
			return "rediss+cluster://" + strings.Join(redistest.StartCluster(t, config...).Addrs(), ",")
		},
		"sentinel": func(t *testing.T) string {
			return "rediss+sentinel://" + strings.Join(redistest.StartSentinel(t, config...).Addrs(), ",") + "/" +
				redistest.MasterName
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url := start(t)
			for i := range 4 { // on several masters
				if used, err := take(url+a.query(), fmt.Sprint("user:", i), long); err != nil || used != 1 {
					t.Errorf("%d used, %v", used, err)
				}
			}
			for i, query := range []string{a.query() + "&tls_server_name=limits.test",
				strings.Replace(a.query(), "tls_ca="+a.file("ca.pem"), "tls_insecure=true", 1)} {
				if used, err := take(url+query, "user:0", long); err != nil || used != int64(2+i) {
					t.Errorf("%s: %d used, %v", query, used, err)
				}
			}
			for query, want := range map[string]string{
				a.query() + "&tls_server_name=other.test": "not other.test",
				"?tls_server_name=limits.test":            "unknown authority",
				"?tls_insecure=true":                      "required", // by its alert, or by our guess if that was lost
			} {
				if _, err := take(url+query, "user:0", long); !errors.Is(err, store.ErrUnavailable) ||
					!strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v\nwant an ErrUnavailable that says %q", query, err, want)
				}
			}
		})
	}
}

// One of several hosts that hangs costs time, but not the answer.
func TestAHungHostIsPassedOver(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "60000")
	hung := redistest.Start(t)
	hung.Pause()
	sentinel := redistest.StartSentinel(t)
	sentinel.Sentinels[1].Pause()
	for _, url := range []string{"redis+cluster://" + hung.Addr + "," + cluster.Masters[0].Addr,
		"redis+sentinel://" + strings.Join(sentinel.Addrs(), ",") + "/" + redistest.MasterName} {
		redistest.Patiently(t, 500*time.Millisecond, func(timeout time.Duration) (missing error) {
			for i := range 4 { // a Cluster's hosts are tried in any order
				if used, err := take(url, fmt.Sprint("user:", timeout), timeout); err != nil || used != int64(i+1) {
					return fmt.Errorf("%s: take %d: %d used, %w", url, i+1, used, err)
				}
			}
			return nil
		})
	}
}

// With any number of hosts that hang, a command ends soon after its timeout.
func TestHungHostsShareTheTimeout(t *testing.T) {
	t.Parallel()
	var addrs []string
	for range 4 {
		server := redistest.Start(t)
		server.Pause()
		addrs = append(addrs, server.Addr)
	}
	hosts := strings.Join(addrs, ",")
	for _, url := range []string{"redis+cluster://" + hosts, "redis+sentinel://" + hosts + "/m"} {
		redistest.Patiently(t, 200*time.Millisecond, func(timeout time.Duration) (missing error) {
			begun := time.Now()
			_, err := take(url, "user:42", timeout)
			if !errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) ||
				!strings.Contains(err.Error(), hosts[:9]) {
				t.Errorf("%s: %v", url, err)
			}
			// one after the other would take four times as long
			if elapsed := time.Since(begun); elapsed > 5*timeout/2 {
				return fmt.Errorf("%s: it took %s", url, elapsed)
			}
			return nil
		})
	}
}

// An error asks whether the port speaks TLS when it answers nothing to the URL's protocol, for every kind of URL.
func TestPortSpeaksOtherwise(t *testing.T) {
	t.Parallel()
	plain := redistest.Start(t)
	locked := redistest.Start(t, "--requirepass", "hunter2")
	secure := redistest.Start(t, newAuthority(t).serve(net.IPv4(127, 0, 0, 1))...)
	silent := must(net.Listen("tcp", "127.0.0.1:0"))
	t.Cleanup(func() { silent.Close() })
	for url, want := range map[string]string{
		"rediss://" + plain.Addr:                        "does the port speak TLS?",
		"rediss://" + locked.Addr:                       "does the port speak TLS?",
		"redis://" + secure.Addr:                        "it hung up before any answer; does the port speak TLS?",
		"redis+sentinel://" + secure.Addr + "/mymaster": "it hung up before any answer; does the port speak TLS?",
		"redis://" + silent.Addr().String():             "no answer in time",
		"rediss://" + silent.Addr().String():            "no answer to the TLS handshake in time",
	} {
		t.Run(url, func(t *testing.T) {
			t.Parallel()
			timeout := 4 * time.Second
			if strings.HasPrefix(url, "rediss") || strings.Contains(url, silent.Addr().String()) {
				timeout = 200 * time.Millisecond
			}
			if _, err := take(url, "user:42", timeout); !errors.Is(err, store.ErrUnavailable) ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%v\nwant an ErrUnavailable that says %q", err, want)
			}
		})
	}
}
