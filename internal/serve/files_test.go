package serve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
)

// shelf is files in memory.
type shelf map[string]string

func (s shelf) read(path string) ([]byte, error) {
	text, there := s[path]
	if !there {
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	return []byte(text), nil
}

// newPair makes a self-signed certificate and its key. It began an hour ago.
func newPair(t *testing.T, name string, ends time.Time) (certificate, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	tier.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: ends, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	tier.Must(t, err)
	text, err := x509.MarshalPKCS8PrivateKey(private)
	tier.Must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))
}

// shown returns the name in the server's certificate; the TLS client may have its own certificate.
func shown(c *Certificates, own ...tls.Certificate) (string, error) {
	here, there := net.Pipe()
	defer here.Close()
	server := tls.Server(there, c.Config("http/1.1"))
	go func() {
		server.Write([]byte("x")) // after the handshake
		there.Close()
	}()
	client := tls.Client(here, &tls.Config{InsecureSkipVerify: true, Certificates: own})
	if err := client.HandshakeContext(context.Background()); err != nil {
		return "", err
	}
	if _, err := client.Read(make([]byte, 1)); err != nil {
		return "", err // the server refused the client's certificate
	}
	return client.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

// A half-written pair leaves the old one in force, and is reported once.
func TestCertificatesAreReplacedAsAPair(t *testing.T) {
	later := time.Now().Add(90 * 24 * time.Hour)
	files := shelf{}
	files["c"], files["k"] = newPair(t, "first", later)
	c, err := ReadCertificates("c", "k", "", files.read)
	tier.Must(t, err)
	check := func(what, name string, wantChanged, wantError bool) {
		t.Helper()
		changed, err := c.Look(t.Context(), false)
		if changed != wantChanged || (err != nil) != wantError {
			t.Errorf("%s: changed %t, %v", what, changed, err)
		}
		if is, err := shown(c); is != name || err != nil {
			t.Errorf("%s: clients are shown %q, %v", what, is, err)
		}
		if stale := c.Stale(); (stale != "") != (wantError || strings.HasPrefix(what, "still")) {
			t.Errorf("%s: stale %q", what, stale)
		}
	}
	check("the same", "first", false, false)
	second, secondKey := newPair(t, "second", later)
	files["c"] = second
	check("only the certificate", "first", false, true)
	check("still only the certificate", "first", false, false)
	files["k"] = secondKey[:100]
	check("half a key", "first", false, true)
	delete(files, "k")
	check("no key", "first", false, true)
	files["k"] = secondKey
	check("both", "second", true, false)
}

func TestClientsNeedACertificateOfTheAuthority(t *testing.T) {
	later := time.Now().Add(time.Hour)
	files := shelf{}
	files["c"], files["k"] = newPair(t, "server", later)
	known, knownKey := newPair(t, "known", later)
	stranger, strangerKey := newPair(t, "stranger", later)
	files["ca"] = known
	c, err := ReadCertificates("c", "k", "ca", files.read)
	tier.Must(t, err)
	pair := func(certificate, key string) tls.Certificate {
		p, err := tls.X509KeyPair([]byte(certificate), []byte(key))
		tier.Must(t, err)
		return p
	}
	if _, err := shown(c, pair(known, knownKey)); err != nil {
		t.Errorf("a client of the authority is refused: %v", err)
	}
	if _, err := shown(c, pair(stranger, strangerKey)); err == nil {
		t.Error("a stranger's certificate is enough")
	}
	if _, err := shown(c); err == nil {
		t.Error("a client without a certificate gets in")
	}
	files["ca"] = stranger
	if changed, err := c.Look(t.Context(), false); !changed || err != nil {
		t.Errorf("changed %t, %v", changed, err)
	}
	if _, err := shown(c, pair(known, knownKey)); err == nil {
		t.Error("a client of the authority before gets in")
	}
}

// A client that stops in its handshake is disconnected.
func TestAStalledHandshakeIsLeft(t *testing.T) {
	files := shelf{}
	synctest.Test(t, func(t *testing.T) { files["c"], files["k"] = newPair(t, "x", time.Now().Add(time.Hour)) })
	for _, begun := range []string{"", "\x16\x03\x01\x02\x00", "GET / HTTP/1.1\r\n"} {
		c, err := ReadCertificates("c", "k", "", files.read)
		tier.Must(t, err)
		inBubble(t, Listener{Handler: echo, RequestTime: bounded, Certificates: c}, Options{}, func(b *bubble) {
			c := b.dial()
			c.send(begun)
			if strings.HasPrefix(begun, "GET") { // gets the answer that this is TLS
				if response, _ := c.answer(); response.StatusCode != http.StatusBadRequest {
					t.Errorf("status %s", response.Status)
				}
				c.checkLeft(0)
				return
			}
			c.checkLeft(headerTime)
		})
	}
}

func TestTokens(t *testing.T) {
	one, two := strings.Repeat("1", 32), strings.Repeat("2", 32)
	files := shelf{"t": "# of the gateway\n" + one + "\n"}
	tokens, err := ReadAccessTokens("t", files.read)
	tier.Must(t, err)
	var seen http.Header
	handler := tokens.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.Header }), readers)
	ask := func(header ...string) int {
		r := httptest.NewRequest("POST", "/v1/check", nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Add(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code == http.StatusUnauthorized &&
			(w.Header().Get("WWW-Authenticate") == "" || strings.Contains(w.Body.String(), "111")) {
			t.Errorf("%v %s", w.Header(), w.Body)
		}
		return w.Code
	}
	for _, test := range []struct {
		header []string
		want   int
	}{
		{nil, 401},
		{[]string{"Authorization", "Bearer " + one}, 200},
		{[]string{"Authorization", "bearer  " + one}, 200},
		{[]string{"Authorization", one}, 401},
		{[]string{"Authorization", "Bearer " + one[1:]}, 401},
		{[]string{"Authorization", "Bearer " + two}, 401},
		{[]string{"Authorization", "Bearer " + two, "Authorization", "Bearer " + one}, 401},
		{[]string{"X-Limitctl-Authorization", "Bearer " + one, "Authorization", "Bearer of a client"}, 200},
		{[]string{"X-Limitctl-Authorization", "Bearer " + two, "Authorization", "Bearer of a client"}, 401},
	} {
		if status := ask(test.header...); status != test.want {
			t.Errorf("%q: status %d, want %d", test.header, status, test.want)
		}
	}
	if ask("X-Limitctl-Authorization", "Bearer "+one, "Authorization", "Bearer of a client"); len(seen) != 1 ||
		seen.Get("Authorization") != "Bearer of a client" {
		t.Errorf("the handler sees %v", seen)
	}
	for _, text := range []string{"", "short", "# nothing\n", one + "\nsho rt and long enough"} {
		files["t"] = text
		if changed, err := tokens.Look(t.Context(), false); changed || err == nil ||
			strings.Contains(err.Error(), one) {
			t.Errorf("%q: changed %t, %v", text, changed, err)
		}
		if ask("Authorization", "Bearer "+one) != 200 {
			t.Error("the token before is not in force")
		}
	}
	files["t"] = one + "\n" + two
	if changed, err := tokens.Look(t.Context(), false); !changed || err != nil || tokens.Count() != 2 {
		t.Errorf("changed %t, %v", changed, err)
	}
	files["t"] = two
	if tokens.Look(t.Context(), false); ask("Authorization", "Bearer "+one) != 401 {
		t.Error("the token before is still in force")
	}
}

// The end waits for the work in the background, but not for work that hangs.
func TestTheEndDoesNotWaitForWhatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		o := &Options{Background: []func(context.Context){
			func(context.Context) { time.Sleep(time.Hour) },
			func(ctx context.Context) { <-ctx.Done(); time.Sleep(backgroundTime / 2); ended.Store(true) },
		}}
		end := o.background(t.Context())
		begun := time.Now()
		end()
		if took := time.Since(begun); took != backgroundTime || !ended.Load() {
			t.Errorf("the end took %s, and the other one has ended: %t", took, ended.Load())
		}
		time.Sleep(2 * time.Hour)
	})
}

func TestHealth(t *testing.T) {
	ok := true
	h := &Health{Components: []Component{
		{"store", func() (bool, any) { return ok, map[string]string{"breaker": "closed"} }}}}
	mux := h.Handler(http.NotFoundHandler())
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Code, strings.TrimSpace(string(bytes.TrimSpace(w.Body.Bytes())))
	}
	check := func(path string, want int, body string) {
		t.Helper()
		if status, text := ask(path); status != want || text != body {
			t.Errorf("%s: %d %s, want %d %s", path, status, text, want, body)
		}
	}
	check("/readyz", 200, `{"schema_version":1,"ready":true,"status":"ready","parts":{"store":{"breaker":"closed"}}}`)
	ok = false
	check("/readyz", 200, `{"schema_version":1,"ready":true,"status":"degraded","parts":{"store":{"breaker":"closed"}}}`)
	h.draining.Store(true)
	check("/readyz", 503, `{"schema_version":1,"ready":false,"status":"draining","parts":{"store":{"breaker":"closed"}}}`)
	check("/healthz", 200, `{"alive":true,"schema_version":1}`)
}
