//go:build unix

package cmd

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

// consumeRequest is a request as bytes.
func consumeRequest() string {
	body := `{"key":"user:42","limits":["1000000/1m"]}`
	return fmt.Sprintf("POST /v1/consume HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// keepAsking asks on one connection until the server says that it closes it. It counts what it
// sent and what was answered.
func keepAsking(t *testing.T, conn net.Conn, pause time.Duration, sent, answered *atomic.Int64) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for {
		if _, err := io.WriteString(conn, consumeRequest()); err != nil {
			t.Errorf("after %d answers: %v", answered.Load(), err)
			return
		}
		sent.Add(1)
		conn.SetReadDeadline(time.Now().Add(childPatience))
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Errorf("a request has no answer: %v", err)
			return
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("status %s, %v", response.Status, err)
		}
		answered.Add(1)
		if response.Close {
			return
		}
		time.Sleep(pause)
	}
}

// No request that was sent is lost when the server is told to end.
func TestServeLosesNoRequestAtItsEnd(t *testing.T) {
	t.Parallel()
	s := startServe(t, "--store", "memory:", "--drain", "20s")
	var group sync.WaitGroup
	var sent, answered atomic.Int64
	for i := range 40 {
		conn, err := net.Dial("tcp", s.addresses["http"])
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() { keepAsking(t, conn, time.Duration(i%5)*20*time.Millisecond, &sent, &answered) })
	}
	for answered.Load() < 2000 {
		time.Sleep(time.Millisecond)
	}
	before := answered.Load()
	log := s.end()
	group.Wait()
	if sent.Load() != answered.Load() || answered.Load() <= before || !strings.Contains(log, "drained") {
		t.Errorf("%d were sent, %d answered, %d of them before the end: %s", sent.Load(), answered.Load(), before, log)
	}
}

// Hundreds of SIGHUPs and a new certificate cost no request; who comes is shown the new one.
func TestServeReloadsUnderLoad(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	t.Parallel()
	first, later := testPair(t, "first"), testPair(t, "later")
	c := newChild(t, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-o", "jsonl", "--store", "memory:", "--drain", "20s",
		"--tls-cert", "tls.crt", "--tls-key", "tls.key")
	c.file("tls.crt", first.certificate)
	c.file("tls.key", first.key)
	s := c.serving()
	dial := func() (*tls.Conn, error) {
		return tls.Dial("tcp", s.addresses["http"], &tls.Config{InsecureSkipVerify: true})
	}
	var group sync.WaitGroup
	var sent, answered atomic.Int64
	for range 10 {
		conn, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() { keepAsking(t, conn, time.Millisecond, &sent, &answered) })
	}
	c.file("tls.crt", later.certificate)
	storm := func(n int) {
		for range n {
			s.signal(syscall.SIGHUP)
			time.Sleep(time.Millisecond)
		}
	}
	storm(200) // with a certificate without its key
	shown := func() *x509.Certificate {
		conn, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0]
	}
	if name := shown().Subject.CommonName; name != "first" {
		t.Errorf("half a pair is shown: %s", name)
	}
	if !waitFor(childPatience, func() bool { return strings.Contains(s.get("admin", "/metrics"), "limitctl_certificate_stale 1") }) {
		t.Error("the metrics do not say that half a pair is there")
	}
	c.file("tls.key", later.key)
	storm(200)
	if !waitFor(childPatience, func() bool { return shown().Subject.CommonName == "later" }) {
		t.Error("the new certificate is not shown")
	}
	log := s.end()
	group.Wait()
	if sent.Load() != answered.Load() || strings.Count(log, "cannot be read again") != 1 {
		t.Errorf("%d were sent, %d answered: %s", sent.Load(), answered.Load(), log)
	}
}

// With a store that stalls, what is beyond the bound is refused at once, and the server says how
// it is. What is not answered in the end is told.
func TestServeRefusesWhatIsTooMuch(t *testing.T) {
	tier.Full(t, "large values, and how much memory they take")
	t.Parallel()
	store, _ := silentServer(t)
	s := startServe(t, "--store", store, "--timeout", "1h", "--max-in-flight", "20", "--drain", "1s")
	for range 20 {
		conn, err := net.Dial("tcp", s.addresses["http"])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, consumeRequest()); err != nil {
			t.Fatal(err)
		}
	}
	var response *http.Response
	if !waitFor(childPatience, func() bool { return strings.Contains(s.get("admin", "/metrics"), `in_flight{door="http"} 20`) }) {
		t.Error("20 are not in flight")
	}
	for range 50 {
		var err error
		if response, err = http.Post(s.url("http", "/v1/consume"), "application/json", strings.NewReader(`{}`)); err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "1" {
			t.Errorf("status %s, %v", response.Status, response.Header)
		}
	}
	if text := s.get("admin", "/readyz"); !strings.Contains(text, `"ready":true`) {
		t.Errorf("/readyz: %s", text)
	}
	s.signal(syscall.SIGTERM)
	if code := s.exit(); code != exitPartly || !strings.Contains(s.stderr.String(), "20 connections still had a request after 1s") {
		t.Errorf("exit code %d: %s", code, &s.stderr)
	}
}

// When the store is back, so is the server.
func TestServeRecoversFromAFlood(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := startServe(t, "--store", "redis://"+redis.Addr, "--timeout", "30s", "--max-in-flight", "5")
	redis.Pause()
	results := make(chan int, 50)
	for range cap(results) {
		go func() {
			status, err := s.consume(http.DefaultClient)
			if err != nil {
				t.Error(err)
			}
			results <- status
		}()
	}
	for range cap(results) - 5 {
		// 408 is for one that was let in and whose body was still awaited when others came.
		if status := <-results; status != http.StatusServiceUnavailable && status != http.StatusRequestTimeout {
			t.Errorf("status %d", status)
		}
	}
	redis.Resume()
	for range 5 {
		if status := <-results; status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	}
	// A client has its answer a little before the server counts the request as done.
	if !waitFor(childPatience, func() bool {
		status, err := s.consume(http.DefaultClient)
		return err == nil && status == http.StatusOK
	}) {
		t.Error("a request after the flood is refused")
	}
	s.end()
}

// Idle connections, however many, keep nobody out.
func TestServeBoundsConnections(t *testing.T) {
	t.Parallel()
	s := startServe(t, "--store", "memory:", "--max-connections", "50")
	for range 400 {
		conn, err := net.Dial("tcp", s.addresses["http"])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if status, err := s.consume(client); err != nil || status != http.StatusOK {
		t.Errorf("status %d, %v", status, err)
	}
	if !waitFor(childPatience, func() bool {
		text := s.get("admin", "/metrics")
		return strings.Contains(text, `limitctl_connections_open{door="http"} 49`) &&
			strings.Contains(text, `limitctl_connections_refused_total{door="http"} 351`)
	}) {
		t.Error(s.get("admin", "/metrics"))
	}
	s.end()
}

// What does not speak HTTP/1.1 gets a clear answer, or is left.
func TestServeAnswersStrangers(t *testing.T) {
	t.Parallel()
	s := startServe(t, "--store", "memory:")
	for _, test := range []struct{ send, want string }{
		{"POST /v1/consume HTTP/1.0\r\nContent-Length: 34\r\n\r\n{\"key\":\"user:1\",\"limits\":[\"1/1m\"]}", "HTTP/1.0 200"},
		{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 4"},
		{"GARBAGE\r\n\r\n", "HTTP/1.1 400"},
		{"GET / HTTP/9.9\r\nHost: x\r\n\r\n", "HTTP/1.1 505"},
		{"POST /v1/check HTTP/1.1\r\n\r\n", "HTTP/1.1 400"}, // no Host
		{"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "HTTP/1.1 400"},
		{"POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n0\r\n\r\n", "HTTP/1.1 400"},
		{"POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", "HTTP/1.1 501"},
		{"POST /v1/check HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 100<<10) + "\r\n\r\n", "HTTP/1.1 431"},
		{"GET /v1/none HTTP/1.1\r\nHost: x\r\n\r\nGARBAGE\r\n\r\n", "HTTP/1.1 404"},
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "HTTP/1.1 400"},
		{"", ""},
	} {
		conn, err := net.Dial("tcp", s.addresses["http"])
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(conn, test.send)
		if test.want != "HTTP/1.0 200" { // a client that is gone is not decided for
			conn.(*net.TCPConn).CloseWrite()
		}
		conn.SetReadDeadline(time.Now().Add(childPatience))
		answer, _ := io.ReadAll(conn) // a reset is fine, once the answer is there
		if !strings.HasPrefix(string(answer), test.want) {
			t.Errorf("%.60q: %.200q, want %s", test.send, answer, test.want)
		}
		conn.Close()
	}
	s.end()
}

// A second signal ends the server, whatever it still has to do.
func TestServeLeavesAtASecondSignal(t *testing.T) {
	t.Parallel()
	s := startServe(t, "--store", "memory:", "--drain", "1h")
	conn, err := net.Dial("tcp", s.addresses["http"])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, strings.TrimSuffix(consumeRequest(), "}"))
	if !waitFor(childPatience, func() bool { return strings.Contains(s.get("admin", "/metrics"), `in_flight{door="http"} 1`) }) {
		t.Error("nothing is in flight")
	}
	s.signal(syscall.SIGTERM)
	if !waitFor(childPatience, func() bool {
		response, err := http.Get(s.url("admin", "/readyz"))
		if err == nil {
			response.Body.Close()
		}
		return err == nil && response.StatusCode == http.StatusServiceUnavailable
	}) {
		t.Error("/readyz does not say that the server drains")
	}
	stop := make(chan struct{})
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				s.cmd.Process.Signal(syscall.SIGTERM)
			}
		}
	}()
	code := s.exit()
	close(stop)
	if status := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGTERM {
		t.Errorf("exit code %d: %s", code, &s.stderr)
	}
}

// A socket that a killed server left does not keep the next one from starting; one in use does.
func TestServeOnASocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	start := func() *served { return startServe(t, "--store", "memory:", "--listen", "unix:"+path) }
	s := start()
	s.cmd.Process.Kill()
	s.exit()
	s = start()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	response, err := client.Post("http://x/v1/check", "application/json", strings.NewReader(`{"key":"user:1","limits":["1/1m"]}`))
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", response, err)
	}
	w := newWorld(t)
	_, stderr := w.run(t, exitUsage, "serve", "--store", "memory:", "--listen", "unix:"+path, "--admin", "off")
	if !strings.Contains(stderr, "--listen: unix:"+path+" is in use by another program; end that, or choose another address") {
		t.Error(stderr)
	}
	_, stderr = w.run(t, exitUsage, "serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--admin", s.addresses["admin"])
	if !strings.Contains(stderr, "--admin: "+s.addresses["admin"]+" is in use by another program") {
		t.Error(stderr)
	}
	s.end()
}
