package serve

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A request from before the end is answered, and the client gets the hint to use another connection.
func TestARequestThatBeganIsAnswered(t *testing.T) {
	inBubble(t, Listener{Handler: echo, RequestTime: bounded}, Options{}, func(b *bubble) {
		c := b.dial()
		c.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nha")
		synctest.Wait()
		b.stop()
		time.Sleep(3 * time.Second)
		if !b.options.Health.Draining() {
			t.Error("the server does not say that it drains")
		}
		c.send("lf")
		if response, body := c.answer(); response.StatusCode != http.StatusOK || body != "half" || !response.Close {
			t.Errorf("status %s, body %q, close %t", response.Status, body, response.Close)
		}
		b.wait(nil)
	})
}

// A client with an idle connection can send one more request after the delay, and then gets the hint.
func TestAConnectionThatWaitsMayAskOnce(t *testing.T) {
	for _, delay := range []time.Duration{0, 3 * time.Second} {
		inBubble(t, Listener{Handler: echo, RequestTime: bounded}, Options{Delay: delay}, func(b *bubble) {
			used, unused, fresh := b.dial(), b.dial(), b.dial()
			for _, c := range []*client{used, unused} {
				c.send(get)
				if response, _ := c.answer(); response.Close {
					t.Error("a connection is closed before the end")
				}
			}
			synctest.Wait()
			b.stop()
			time.Sleep(delay + linger/2)
			for _, c := range []*client{used, fresh} {
				c.send(get)
				if response, _ := c.answer(); response.StatusCode != http.StatusOK || !response.Close {
					t.Errorf("status %s, close %t", response.Status, response.Close)
				}
			}
			unused.checkLeft(linger / 2)
			b.wait(nil)
		})
	}
}

// A request in the moment in which its connection is to be closed is answered.
func TestARequestInTheLastMomentIsAnswered(t *testing.T) {
	for _, late := range []time.Duration{-time.Millisecond, 0, lastLook / 2, lastLook - time.Millisecond} {
		inBubble(t, Listener{Handler: echo, RequestTime: bounded}, Options{}, func(b *bubble) {
			c := b.dial()
			c.send(get)
			c.answer()
			synctest.Wait()
			b.stop()
			time.Sleep(linger + late)
			c.send(get)
			if response, _ := c.answer(); !response.Close {
				t.Error("the connection stays open")
			}
			b.wait(nil)
		})
	}
}

// New connections are accepted as long as balancers may send them.
func TestTheDelayTakesNewConnections(t *testing.T) {
	inBubble(t, Listener{Handler: echo, RequestTime: bounded}, Options{Delay: 3 * time.Second}, func(b *bubble) {
		synctest.Wait()
		b.stop()
		begun := time.Now()
		time.Sleep(2 * time.Second)
		c := b.dial()
		c.send(get)
		if response, _ := c.answer(); response.StatusCode != http.StatusOK || !response.Close {
			t.Errorf("status %s, close %t", response.Status, response.Close)
		}
		b.wait(nil)
		if took := time.Since(begun).Round(100 * time.Millisecond); took != 3*time.Second {
			t.Errorf("the end took %s", took)
		}
	})
}

// Requests that do not end in time are cut, and counted.
func TestWhatDoesNotEndIsCut(t *testing.T) {
	stuck := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	inBubble(t, Listener{Handler: stuck, RequestTime: time.Hour}, Options{}, func(b *bubble) {
		for range 3 {
			b.dial().send(get)
		}
		synctest.Wait()
		begun := time.Now()
		b.stop()
		err := <-b.ended
		b.ended = nil
		if !errors.Is(err, ErrCut) || !strings.Contains(err.Error(), ": 3 connections ") {
			t.Errorf("the server ends with %v", err)
		}
		if took := time.Since(begun); took != b.options.Drain {
			t.Errorf("the end took %s", took)
		}
	})
}
