package cmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/tier"
)

// hostileEndpoint serves each connection by a function until the test ends.
func hostileEndpoint(t *testing.T, serve func(net.Conn)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	t.Cleanup(func() { end(); listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			go func() {
				defer conn.Close()
				defer stop()
				serve(conn)
			}()
		}
	}()
	return listener.Addr().String()
}

// replying reads requests, and answers each with a text.
func replying(answer func() string) func(net.Conn) {
	return func(conn net.Conn) {
		in := bufio.NewReader(conn)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			if _, err := io.WriteString(conn, answer()); err != nil {
				return
			}
		}
	}
}

// Whatever an HTTP server does, probe and load tests of it end in their time, with a code that
// scripts know, and a terminal obeys nothing of what they print.
func TestEndpointsThatAreHostile(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	t.Parallel()
	const denied, end = "HTTP/1.1 429 Too Many Requests\r\n", "Content-Length: 0\r\n\r\n"
	always := func(text string) func(net.Conn) { return replying(func() string { return text }) }
	behaviours := map[string]func(net.Conn){
		"closes at once":          func(net.Conn) {},
		"never answers":           func(conn net.Conn) { io.Copy(io.Discard, conn) },
		"speaks another protocol": func(conn net.Conn) { io.WriteString(conn, "-ERR \x1b]0;PWNED\x07 unknown command\r\n") },
		"a body without an end": func(conn net.Conn) {
			replying(func() string { return "HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 1<<20) })(conn)
		},
		"a header without an end": always("HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 1<<21)),
		"denies everything":       always(denied + end),
		"denies with great numbers": always(denied + "Retry-After: 99999999999999999999\r\nX-RateLimit-Reset: -9223372036854775809\r\n" +
			end),
		"denies until long ago":       always(denied + "Retry-After: Mon, 01 Jan 0001 00:00:00 GMT\r\nX-RateLimit-Reset: NaN\r\n" + end),
		"sends elsewhere":             always("HTTP/1.1 302 Found\r\nLocation: http://192.0.2.1/\r\n" + end),
		"a status that is none":       always("HTTP/1.1 999 \x1b[31mRED\r\n" + end),
		"a status of three letters":   always("HTTP/1.1 abc OK\r\n" + end),
		"two lengths of one body":     always("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n"),
		"one answer more than needed": always("HTTP/1.1 200 OK\r\n" + end + denied + end),
	}
	for i, text := range hostiletext.Texts() {
		if i%8 == 0 { // as what a limit is called, and what it says
			text = strings.NewReplacer("\r", "", "\n", "").Replace(text)
			behaviours[fmt.Sprintf("says %q", text)] = always(denied + "RateLimit: " + text + ";r=0;t=1\r\nRateLimit-Policy: \"" + text +
				"\";q=1;w=1\r\nRetry-After: " + text + "\r\n" + end)
		}
	}
	all := newSideBySide(8)
	for name, serve := range behaviours {
		for _, args := range [][]string{
			{"probe", "--requests", "40", "--max-time", "1s", "--timeout", "300ms", "--limit", "5/1s", "-o", "json"},
			{"loadtest", "--limit", "5/1s", "--rate", "50", "--duration", "300ms", "--timeout", "300ms"},
		} {
			all.do(func() {
				w := newWorld(t)
				url := "http://" + hostileEndpoint(t, serve) + "/?key={subject}"
				ctx, cancel := context.WithTimeout(context.Background(), hostilePatience)
				defer cancel()
				code := Run(ctx, append(args, url), w.Env)
				if ctx.Err() != nil {
					t.Errorf("%s: %q goes on", name, args)
				}
				known := []int{exitYes, exitNo, exitUnreachable, exitPartly}
				if name == "a status that is none" { // the URL is taken to be wrong
					known = append(known, exitUsage)
				}
				if !slices.Contains(known, code) {
					t.Errorf("%s: %q ended with %d:\n%s%s", name, args, code, &w.out, &w.err)
				}
				for _, text := range []string{w.out.String(), w.err.String()} {
					checkText(t, name, text, false)
					if strings.Contains(text, "panic") || strings.Contains(text, "internal error") {
						t.Errorf("%s: %q prints\n%s", name, args, text)
					}
				}
			})
		}
	}
	all.wait()
}

// Neither the outputs of probe nor its files show what a request proves itself with.
func TestPasswordsOfProbedEndpointsAreNotShown(t *testing.T) {
	url, _ := limited(t, "3/1h", nil)
	url = strings.Replace(url, "http://", "http://me:hunter2hunter2@", 1) + "?user={subject}&api_key=hunter2hunter2"
	secret := []string{"-H", "Authorization2: Bearer hunter2hunter2", "-H", "Cookie: hunter2hunter2=", "--header=X-A: hunter2hunter2"}
	files := t.TempDir()
	junit, markdown := filepath.Join(files, "junit.xml"), filepath.Join(files, "probe.md")
	for _, args := range [][]string{
		{"--limit", "3/1h", "--max-time", "3s", "--junit", junit, "--markdown", markdown},
		{"--limit", "2/1h", "--max-time", "3s", "-o", "json"},
		{"--requests", "10", "-o", "json"},
	} {
		w := newWorld(t)
		Run(context.Background(), append(append([]string{"probe", url}, secret...), args...), w.Env)
		shown := w.out.String() + w.err.String()
		for _, path := range []string{junit, markdown} {
			text, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			shown += string(text)
		}
		if strings.Contains(shown, "hunter2") || !strings.Contains(shown, "me:xxxxx@") {
			t.Errorf("%q shows a password, or no URL:\n%s", args, shown)
		}
	}
}
