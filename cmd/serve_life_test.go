//go:build unix

package cmd

import (
	"bufio"
	"context"
	"crypto/tls"
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

// No request that was sent is lost by hundreds of SIGHUPs, a new certificate, or the end. Who comes is shown the new
// certificate, once its key is there.
func TestServeLosesNoRequest(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	t.Parallel()
	first, later := testPair(t, "first"), testPair(t, "later")
	c := newChild(t, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-o", "jsonl", "--store", "memory:",
		"--drain", "20s",
		"--tls-cert", "tls.crt", "--tls-key", "tls.key")
	c.file("tls.crt", first.certificate)
	c.file("tls.key", first.key)
	s := c.serving()
	dial := func() *tls.Conn {
		conn, err := tls.Dial("tcp", s.addresses["http"], &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	var group sync.WaitGroup
	var sent, answered atomic.Int64
	for i := range 20 {
		conn := dial()
		group.Go(func() { keepAsking(t, conn, time.Duration(i%5)*10*time.Millisecond, &sent, &answered) })
	}
	storm := func() {
		for range 200 {
			s.signal(syscall.SIGHUP)
			time.Sleep(time.Millisecond)
		}
	}
	shown := func() string {
		conn := dial()
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	c.file("tls.crt", later.certificate)
	storm()
	if name := shown(); name != "first" {
		t.Errorf("half a pair is shown: %s", name)
	}
	s.until("the metrics say that half a pair is there", func() bool {
		return strings.Contains(s.get("admin", "/metrics"), "\nlimitctl_certificate_stale 1\n")
	})
	c.file("tls.key", later.key)
	storm()
	s.until("the new certificate is shown", func() bool { return shown() == "later" })
	before := answered.Load()
	log := s.end()
	group.Wait()
	if sent.Load() != answered.Load() || answered.Load() <= before || strings.Count(log, "cannot be read again") != 1 ||
		!strings.Contains(log, "drained") {
		t.Errorf("%d were sent, %d answered, %d of them before the end: %s", sent.Load(), answered.Load(), before, log)
	}
}

// With a store that stalls, what is beyond the bound is refused at once, and the server says that it is ready. What is
// not answered in the end is told.
func TestServeRefusesWhatIsTooMuch(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := startServe(t, "--store", "redis://"+redis.Addr, "--timeout", "1h", "--max-in-flight", "5", "--drain", "100ms")
	redis.Pause()
	for range 5 {
		conn, err := net.Dial("tcp", s.addresses["http"])
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, consumeRequest()); err != nil {
			t.Fatal(err)
		}
	}
	s.until("five are in flight", func() bool {
		return strings.Contains(s.get("admin", "/metrics"), `in_flight{door="http"} 5`)
	})
	for range 20 {
		response, err := http.Post(s.url("http", "/v1/consume"), "application/json", strings.NewReader(`{}`))
		if err != nil {
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
	defer redis.Resume()
	s.signal(syscall.SIGTERM)
	if code := s.exit(); code != exitPartly ||
		!strings.Contains(s.stderr.String(), "5 connections still had one after 100ms") {
		t.Errorf("exit code %d: %s", code, &s.stderr)
	}
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
	s.until("the metrics tell of 49 connections and 351 that were closed", func() bool {
		text := s.get("admin", "/metrics")
		return strings.Contains(text, `limitctl_connections_open{door="http"} 49`) &&
			strings.Contains(text, `limitctl_connections_refused_total{door="http"} 351`)
	})
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
	s.until("a request is in flight", func() bool {
		return strings.Contains(s.get("admin", "/metrics"), `in_flight{door="http"} 1`)
	})
	s.signal(syscall.SIGTERM)
	s.until("/readyz says that the server drains", func() bool {
		status, _ := s.body("admin", "/readyz", "")
		return status == http.StatusServiceUnavailable
	})
	stop := make(chan struct{})
	go func() { // until it is heard
		for tick := time.Tick(20 * time.Millisecond); ; {
			select {
			case <-stop:
				return
			case <-tick:
				s.cmd.Process.Signal(syscall.SIGTERM)
			}
		}
	}()
	code := s.exit()
	close(stop)
	if status := s.cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() ||
		status.Signal() != syscall.SIGTERM {
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
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}}}
	response, err := client.Post("http://x/v1/check", "application/json",
		strings.NewReader(`{"key":"user:1","limits":["1/1m"]}`))
	if err != nil || response.StatusCode != http.StatusOK {
		t.Errorf("%v, %v", response, err)
	}
	w := newWorld(t)
	_, stderr := w.run(t, exitUsage, "serve", "--store", "memory:", "--listen", "unix:"+path, "--admin", "off")
	if !strings.Contains(stderr, "--listen: unix:"+path+
		" is in use by another program; end that, or choose another address") {
		t.Error(stderr)
	}
	_, stderr = w.run(t, exitUsage, "serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--admin",
		s.addresses["admin"])
	if !strings.Contains(stderr, "--admin: "+s.addresses["admin"]+" is in use by another program") {
		t.Error(stderr)
	}
	s.end()
}
