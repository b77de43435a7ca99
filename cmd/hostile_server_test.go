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
	"unicode"

	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/output"
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
	store := "redis://" + redistest.Scripted(t, func([]string) string { return fmt.Sprintf("-ERR %s\r\n", text.Load()) })
	commands := [][]string{{"check", "a", "--limit", "1/1h"}, {"inspect", "a", "-o", "json"}, {"reset", "*", "--yes"}, {"doctor"},
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
		"\x1b]0;x\x07", "=1+1\r\n=2+2", "a,\"b\r\nrl:{c}:forged,list", "\u202e", "\xff", "a\tb", strings.Repeat("x", 100_000),
	} {
		store := "redis://" + rewrite(t, server.Addr, func(line []byte) []byte {
			if string(line) == "+list\r\n" {
				return fmt.Appendf(nil, "$%d\r\n%s\r\n", len(holds), holds)
			}
			return line
		})
		w.OutIsTerminal = false
		for _, format := range machineFormats {
			stdout, _ := w.try(t, "inspect", "*", "--foreign", "--store", store, "-o", format)
			if rows, is := parsed(t, format, stdout).([][]string); is && (len(rows) != 3 || len(rows[1]) != 4) {
				t.Errorf("with a type of %.40q CSV has %d rows: %.300q", holds, len(rows)-1, stdout)
			}
		}
		w.OutIsTerminal = i%2 == 0
		if stdout, _ := w.try(t, "inspect", "*", "--foreign", "--store", store); rowsUnder("HOLDS", stdout) != 2 {
			t.Errorf("with a type of %.40q two keys are %.300q", holds, stdout)
		}
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

// sequences are what a frame on a terminal may have: our styles, and what Bubble Tea draws
// frames with and sets a terminal up by.
var sequences = regexp.MustCompile("\x1b\\[(1;)?([0127]|3[1236]|38;5;[0-9]+)?m|" +
	"\x1b\\[[0-9]*[ABCDGKJX]|\x1b\\[[0-9;]*H|\x1b\\[\\?(25|1049|1002|1003|1006|2004)[hl]")

// checkScreen makes sure that nothing else was written to the terminal.
func (term *terminal) checkScreen() {
	term.Helper()
	text := sequences.ReplaceAllString(term.text(0), "")
	for i, r := range text {
		if !strings.ContainsRune("\r\n\b", r) && (output.Escape(string(r)) != string(r) || unicode.Is(unicode.Bidi_Control, r)) {
			term.Fatalf("%q was written to the terminal: %q", r, text[max(0, i-100):min(len(text), i+100)])
		}
	}
}

func TestDashboardOfHostileNamesInATerminal(t *testing.T) {
	t.Parallel()
	_, server, subjects := hostileStore(t)
	var refused atomic.Bool
	proxy := rewrite(t, server.Addr, func(line []byte) []byte {
		if version, is := bytes.CutPrefix(line, []byte("redis_version:")); is {
			return append([]byte("redis_version:"), append(bytes.Repeat([]byte{0x1b}, len(version)-2), "\r\n"...)...)
		}
		if refused.Load() && len(line) > 0 && (line[0] == '*' || line[0] == '$' || line[0] == '%') {
			return []byte("-ERR \x1b]0;PWNED\x07\u202e\x9b2J\r\n")
		}
		return line
	})
	env := []string{"TERM=xterm-256color", "HOME=" + t.TempDir(), "XDG_STATE_HOME=", "LIMITCTL_STORE=" + unset}
	term := openTerminal(t)
	term.start(env, "top", "--store", "redis://"+proxy, "--refresh", "100ms")
	term.wait(0, "at the limit", "keys")
	for range len(subjects)/20 + 1 { // page by page through all of them
		term.press("\x1b[6~", "1/10")
	}
	term.press("\r", "1 of 10 used")
	term.press("\x1b", `enter\S* \S*detail`) // Escape and the next key, read at once, are Alt and that key
	// The very one that was chosen is reset, though others look like it.
	victim := "user:\u200bzero"
	term.press("/"+victim, "filter: ")
	term.press("\r", `enter\S* \S*detail`)
	term.press("r", `Delete 1 key\?`)
	term.press("y", "deleted 1 key")
	left := server.Do("EXISTS", "rl:{"+victim+"}:token-bucket/1h")
	all := server.Do("EVAL", "return #redis.call('KEYS', 'rl:*')", 0)
	if fmt.Sprint(left) != "0" || fmt.Sprint(all) != fmt.Sprint(len(subjects)-1) {
		t.Errorf("after the reset of one of %d keys it exists: %v, and %v are left", len(subjects), left, all)
	}
	term.press("u", "Bring back 1 key")
	term.press("y", "brought back 1 key")
	if left := server.Do("EXISTS", "rl:{"+victim+"}:token-bucket/1h"); fmt.Sprint(left) != "1" {
		t.Error("the undo did not bring it back")
	}
	from := len(term.text(0))
	refused.Store(true)
	term.wait(from, "no answer for")
	term.press("q", endOfScreen)
	term.checkLeft(exitYes)
	term.checkScreen()
}
