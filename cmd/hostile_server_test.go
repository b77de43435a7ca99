package cmd

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

// rewrite is a server between, which changes lines of the other's replies.
func rewrite(t *testing.T, address string, change func(line []byte) []byte) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				between(conn, address, change)
			}()
		}
	}()
	return listener.Addr().String()
}

// between passes on what a client asks and what a server replies, as it was changed.
func between(client net.Conn, address string, change func(line []byte) []byte) {
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		io.Copy(server, client)
		server.Close()
	}()
	replies := bufio.NewReader(server)
	for {
		line, err := replies.ReadBytes('\n')
		if _, writeErr := client.Write(change(line)); err != nil || writeErr != nil {
			return
		}
	}
}

// What a server says in errors, types and fields of INFO is text, to people and to programs. The commands take turns.
func TestHostileServerTexts(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	t.Parallel()
	w := newWorld(t)
	var text atomic.Value // of its errors
	store := "redis://" + redistest.Scripted(
		t, func([]string) string { return fmt.Sprintf("-ERR %s\r\n", text.Load()) })
	commands := [][]string{{"check", "a", "--limit", "1/1h"}, {"inspect", "a", "-o", "json"}, {"reset", "*", "--yes"},
		{"doctor"},
		{"dashboard", "--once"}}
	for i, hostile := range hostiletext.Texts() {
		if strings.ContainsAny(hostile, "\r\n") { // which a line of an error cannot hold
			continue
		}
		text.Store(hostile)
		w.OutIsTerminal = i%2 == 0
		w.try(t, append(commands[i%len(commands)], "--store", store)...)
	}
	text.Store(strings.Repeat("long ", 100_000))
	if _, stderr := w.try(t, "check", "a", "--limit", "1/1h", "--store", store); len(stderr) > 3000 {
		t.Errorf("an error of 500 kB is said in %d bytes", len(stderr))
	}

	server := redistest.Start(t)
	server.Do("RPUSH", "rl:{a}:foreign", "x")
	server.Do("RPUSH", "rl:{b}:foreign", "x")
	for i, holds := range []string{
		"\x1b]0;x\x07", "=1+1\r\n=2+2", "a,\"b\r\nrl:{c}:forged,list", "\u202e", "\xff", "a\tb",
		strings.Repeat("x", 100_000),
	} {
		store := "redis://" + rewrite(t, server.Addr, func(line []byte) []byte {
			if string(line) == "+list\r\n" {
				return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(holds), holds)
			}
			return line
		})
		w.OutIsTerminal = false
		w.OutIsTerminal = i%2 == 0
		w.try(t, "inspect", "*", "--store", store)
		w.try(t, "doctor", "--store", store)
	}
	field := regexp.MustCompile(`^(redis_version|redis_mode|os|role|maxmemory_policy|config_file|loading|run_id):(.*)\r\n`)
	for i, hostile := range []string{"\x1b]0;x\x07", "\u202e", "\xff\x9b", "\x00\x08"} {
		store := "redis://" + rewrite(t, server.Addr, func(line []byte) []byte {
			if found := field.FindSubmatch(line); found != nil { // as long as it was
				same := bytes.Repeat([]byte(hostile), len(found[2])/len(hostile)+1)[:len(found[2])]
				return fmt.Appendf(nil, "%s:%s\r\n", found[1], same)
			}
			return line
		})
		w.OutIsTerminal = i%2 == 0
		for _, args := range [][]string{{"doctor"}, {"doctor", "-o", "json"}, {"dashboard", "--once"}} {
			w.try(t, append(args, "--store", store)...)
		}
	}
}
