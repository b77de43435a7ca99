package serve

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A connection beyond the bound replaces the one that has been idle longest.
func TestTheLongestIdleConnectionMakesRoom(t *testing.T) {
	var refused, open int
	var turn sync.Mutex
	events := Events{
		Connections:       func(_ string, change int) { turn.Lock(); open += change; turn.Unlock() },
		ConnectionRefused: func(string) { turn.Lock(); refused++; turn.Unlock() },
	}
	release := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-release
		}
	})
	inBubble(t, Listener{Handler: handler, RequestTime: bounded, MaxConnections: 3}, Options{Events: events}, func(b *bubble) {
		release = make(chan struct{})
		busy, idle, silent := b.dial(), b.dial(), b.dial()
		idle.send(get)
		idle.answer() // now the silent one has been idle longer
		busy.send(strings.Replace(get, "/", "/wait", 1))
		synctest.Wait()

		fourth := b.dial()
		fourth.send(get)
		fourth.answer()
		silent.checkLeft(0)
		idle.send(get)
		if response, _ := idle.answer(); response.StatusCode != http.StatusOK {
			t.Errorf("status %s", response.Status)
		}
		// If all of them are busy there is no room.
		for _, c := range []*client{idle, fourth} {
			c.send(strings.Replace(get, "/", "/wait", 1))
		}
		synctest.Wait()
		b.dial().checkLeft(0)
		close(release)
		for _, c := range []*client{busy, idle, fourth} {
			if response, _ := c.answer(); response.StatusCode != http.StatusOK {
				t.Errorf("status %s", response.Status)
			}
		}
		b.dial()
		synctest.Wait()
		turn.Lock()
		if refused != 3 || open != 3 {
			t.Errorf("%d refused, %d open", refused, open)
		}
		turn.Unlock()
	})
	if open != 0 {
		t.Errorf("%d connections are open at the end", open)
	}
}

// Requests beyond the bound are refused at once, and others are accepted when there is room again.
func TestAGateRefusesWhatIsBeyondIt(t *testing.T) {
	refused := 0
	gate := NewGate(2, func() { refused++ })
	entered, release := make(chan struct{}), make(chan struct{})
	handler := gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
		if r.URL.Path == "/wait" {
			entered <- struct{}{}
			<-release
		}
	}))
	ask := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w
	}
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() { ask("/wait") })
		<-entered
	}
	w := ask("/")
	var doc struct {
		SchemaVersion int `json:"schema_version"`
		Error         struct{ Kind, Message string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || doc.SchemaVersion != 1 || doc.Error.Kind != "overloaded" ||
		w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v %s (%v)", w.Code, w.Header(), w.Body, err)
	}
	for range 2 { // refused requests are not in flight
		ask("/")
	}
	close(release)
	group.Wait()
	for range 3 { // a panic also leaves the gate
		func() {
			defer func() { recover() }()
			ask("/panic")
		}()
	}
	if w := ask("/"); w.Code != http.StatusOK || refused != 3 {
		t.Errorf("status %d, %d refused", w.Code, refused)
	}
}

// Clients that announce a body and do not send it keep nobody out: the one that is overdue longest is dropped. A
// request whose body is complete is never dropped.
func TestSlowBodiesMakeRoom(t *testing.T) {
	gate := NewGate(3, nil)
	var release chan struct{}
	listener := Listener{RequestTime: time.Minute, Handler: gate.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch _, err := io.ReadAll(r.Body); {
		case err != nil:
			w.Header().Set("Connection", "close")
			w.WriteHeader(http.StatusRequestTimeout)
		case r.URL.Path == "/wait":
			<-release
		}
	}))}
	inBubble(t, listener, Options{}, func(b *bubble) {
		release = make(chan struct{})
		begin := func(text string) *client {
			c := b.dial()
			c.send(text)
			synctest.Wait()
			return c
		}
		check := func(c *client, what string, want int) {
			if response, _ := c.answer(); response.StatusCode != want {
				t.Errorf("%s is answered with %d, not %d", what, response.StatusCode, want)
			}
			c.Close()
		}
		whole := begin("POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
		first := begin("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx")
		second := begin("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nx")
		for range 3 {
			check(begin("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "another", http.StatusOK)
		}
		check(first, "the slow one that waited longest", http.StatusRequestTimeout)
		second.send("12345678")
		check(second, "the other slow one", http.StatusOK)
		close(release)
		check(whole, "the one that was there", http.StatusOK)
	})
	if n := gate.inFlight.Load(); n != 0 {
		t.Errorf("%d are in flight at the end", n)
	}
}
