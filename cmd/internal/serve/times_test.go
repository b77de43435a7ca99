package serve

import (
	"context"
	"fmt"
	"io"
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
		{"a header byte by byte, bodies of any length", Listener{Handler: echo},
			func(c *client) { c.trickle("GET / HTTP/1.1\r\n"+strings.Repeat("X: y\r\n", 100), time.Second) }, headerTime},
		{"a body byte by byte", Listener{Handler: echo, RequestTime: bounded},
			func(c *client) { c.send(header); c.trickle(strings.Repeat("x", 1000), time.Second) }, bounded},
		{"a body byte by byte, of any length", Listener{Handler: echo},
			func(c *client) { c.send(header); c.trickle(strings.Repeat("x", 1000), time.Second) }, clientDelay},
		{"a body that stops", Listener{Handler: echo}, func(c *client) { c.send(header + "begun") }, clientDelay},
		{"a body that nobody reads", Listener{Handler: http.NotFoundHandler()}, func(c *client) { c.send(header + "begun") }, leftover},
		{"a body that nobody reads, in bounded time", Listener{Handler: http.NotFoundHandler(), RequestTime: bounded},
			func(c *client) { c.send(header + "begun") }, leftover},
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
	for _, test := range []struct {
		name     string
		listener Listener
		after    time.Duration
	}{
		{"bounded", Listener{RequestTime: bounded}, bounded},
		{"of any length", Listener{}, clientDelay},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, reads := range []bool{false, true} {
				begun, ended := time.Time{}, make(chan time.Duration, 1)
				test.listener.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					begun = time.Now()
					endless(w, r)
					ended <- time.Since(begun)
				})
				inBubble(t, test.listener, Options{}, func(b *bubble) {
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
					if took := <-ended; took < test.after-time.Second || took > test.after+time.Second {
						t.Errorf("the server wrote for %s, want %s", took, test.after)
					}
					c.Close()
				})
			}
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

// A body of any length gets through, if its client keeps sending and reading.
func TestLongBodiesGetThrough(t *testing.T) {
	inBubble(t, Listener{Handler: echo}, Options{}, func(b *bubble) {
		const pieces = 600
		piece := strings.Repeat("x", 2<<10)
		c := b.dial()
		go func() { // for ten minutes
			fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", pieces*len(piece))
			for range pieces {
				time.Sleep(time.Second)
				io.WriteString(c, piece)
			}
		}()
		if response, body := c.answer(); response.StatusCode != http.StatusOK || len(body) != pieces*len(piece) {
			t.Errorf("status %s, %d bytes", response.Status, len(body))
		}
		c.Close()
	})
}

// A handler may take as long as it needs, and notices a client that leaves.
func TestALongAnswerIsNotTheClientsFault(t *testing.T) {
	left := make(chan error, 1)
	slow := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		r.Body.Read(make([]byte, 1)) // finds the end again
		select {
		case <-time.After(10 * time.Minute):
			io.WriteString(w, "late")
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
			left <- context.Cause(r.Context())
		case <-r.Context().Done():
			left <- fmt.Errorf("before the answer: %w", context.Cause(r.Context()))
		}
	})
	for _, request := range []string{
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nxx",
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nxx\r\n0\r\n\r\n",
		get,
	} {
		inBubble(t, Listener{Handler: slow}, Options{}, func(b *bubble) {
			left = make(chan error, 1)
			c := b.dial()
			c.send(request)
			response, err := http.ReadResponse(c.reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			word := make([]byte, 4)
			if _, err := io.ReadFull(response.Body, word); err != nil || string(word) != "late" {
				t.Errorf("%q, %v", word, err)
			}
			c.Close()
			if err := <-left; err != context.Canceled {
				t.Errorf("%q: the context ended: %v", request, err)
			}
		})
	}
}

// The times of a request do not depend on the one before on the same connection.
func TestARequestDoesNotInheritTimes(t *testing.T) {
	inBubble(t, Listener{Handler: echo}, Options{}, func(b *bubble) {
		c := b.dial()
		c.send(get)
		c.answer()
		time.Sleep(2 * clientDelay)
		c.send("POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
		if response, _ := c.answer(); response.StatusCode != http.StatusContinue {
			t.Errorf("status %s", response.Status)
		}
		c.send("xx")
		if response, body := c.answer(); response.StatusCode != http.StatusOK || body != "xx" {
			t.Errorf("status %s, body %q", response.Status, body)
		}
		c.Close()
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
