package serve

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

const bounded = 20 * time.Second

// A client that is slow on purpose is disconnected after a time, wherever it is slow.
func TestSlowClientsAreLeft(t *testing.T) {
	header := "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
	for _, test := range []struct {
		name     string
		listener Listener
		attack   func(c *client)
		after    time.Duration
	}{
		{"a connection without a word", Listener{Handler: echo, RequestTime: bounded}, func(*client) {}, headerTime},
		{"a header byte by byte", Listener{Handler: echo, RequestTime: bounded},
			func(c *client) { c.trickle(get+strings.Repeat("X: y\r\n", 100), time.Second) }, headerTime},
		{"a body byte by byte", Listener{Handler: echo, RequestTime: bounded},
			func(c *client) { c.send(header); c.trickle(strings.Repeat("x", 1000), time.Second) }, bounded},
		{"a body that nobody reads", Listener{Handler: http.NotFoundHandler(), RequestTime: bounded},
			func(c *client) { c.send(header + "begun") }, bounded},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, test.listener, Options{}, func(b *bubble) {
				c := b.dial()
				test.attack(c)
				c.checkLeft(test.after)
			})
		})
	}
}

// A client that reads its answer slowly, or not at all, is disconnected, too.
func TestSlowReadersAreLeft(t *testing.T) {
	for _, reads := range []bool{false, true} {
		ended := make(chan time.Duration, 1)
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begun := time.Now()
			endless(w, r)
			ended <- time.Since(begun)
		})
		inBubble(t, Listener{RequestTime: bounded, Handler: handler}, Options{}, func(b *bubble) {
			ended = make(chan time.Duration, 1)
			c := b.dial()
			c.send(get)
			if reads {
				go func() {
					one := make([]byte, 1)
					for {
						if _, err := c.Read(one); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				}()
			}
			if took := <-ended; took < bounded-time.Second || took > bounded+time.Second {
				t.Errorf("the server wrote for %s, want %s", took, bounded)
			}
			c.Close()
		})
	}
}

// Between two requests a connection may wait longer, but not for ever.
func TestIdleConnectionsAreClosed(t *testing.T) {
	inBubble(t, Listener{Handler: echo, RequestTime: bounded}, Options{}, func(b *bubble) {
		c := b.dial()
		for range 3 {
			c.send(get)
			if response, _ := c.answer(); response.StatusCode != http.StatusOK {
				t.Errorf("status %s", response.Status)
			}
			time.Sleep(idleTime - time.Second)
		}
		c.checkLeft(time.Second)
	})
}

func TestHugeHeadersAreRefused(t *testing.T) {
	inBubble(t, Listener{Handler: echo, RequestTime: bounded}, Options{}, func(b *bubble) {
		c := b.dial()
		c.send("GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 2*maxHeader) + "\r\n\r\n")
		if response, _ := c.answer(); response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("status %s", response.Status)
		}
		c.Close()
	})
}
