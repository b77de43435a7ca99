package serve

import (
	"encoding/json"
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
	events := Options{
		Connections:       func(_ string, change int) { turn.Lock(); open += change; turn.Unlock() },
		ConnectionRefused: func(string) { turn.Lock(); refused++; turn.Unlock() },
	}
	release := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-release
		}
	})
	inBubble(t, Listener{Handler: handler, RequestTime: bounded, MaxConnections: 3}, events, func(b *bubble) {
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
	gate := NewGate(1, func() { refused++ })
	handler := gate.Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panic" {
			panic(http.ErrAbortHandler)
		}
	}))
	ask := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w
	}
	gate.Enter()
	w := ask("/")
	var doc struct {
		SchemaVersion int `json:"schema_version"`
		Error         struct{ Kind, Message string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || doc.SchemaVersion != 1 ||
		doc.Error.Kind != "overloaded" ||
		w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v %s (%v)", w.Code, w.Header(), w.Body, err)
	}
	ask("/") // who is refused is not in flight
	gate.Leave()
	func() {
		defer func() { recover() }()
		ask("/panic") // leaves the gate, too
	}()
	if w := ask("/"); w.Code != http.StatusOK || refused != 2 {
		t.Errorf("status %d, %d refused", w.Code, refused)
	}
}

// Clients that connect and send nothing, or never end a header or a body, keep nobody out.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	inBubble(t, Listener{Handler: echo, RequestTime: bounded, MaxConnections: 3}, Options{}, func(b *bubble) {
		for range 20 {
			slow, body := b.dial(), b.dial()
			defer slow.Close()
			defer body.Close()
			slow.trickle(get, time.Second)
			b.dial()
			body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nbegun")
			synctest.Wait()
			c, begun := b.dial(), time.Now()
			c.send(get)
			if response, _ := c.answer(); response.StatusCode != http.StatusOK || time.Since(begun) > 0 {
				t.Errorf("status %s after %s", response.Status, time.Since(begun))
			}
			time.Sleep(time.Second)
		}
	})
}
