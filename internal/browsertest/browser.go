// Package browsertest shows pages in a real browser, for tests.
package browsertest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
)

// Browser is a headless Chromium that is spoken to over a pipe, in the DevTools
// protocol: a message is JSON and ends with a zero byte.
type Browser struct {
	t       *testing.T
	to      io.Writer
	from    *bufio.Reader
	session string
	id      int
	// Asked is what the page shown last asked for, itself included.
	Asked []string
	// Console is what the page shown last got on its console: messages, errors, and exceptions that nobody caught.
	Console []string
	// ended tells that it is gone, and what it said may say why.
	ended bool
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// New starts a browser, which ends with the test. It belongs to the full tier.
func New(t *testing.T) *Browser {
	t.Helper()
	tier.Full(t, "a browser")
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("the pages are looked at in Chromium; `make setup` installs it: %v", err)
	}
	theirIn, ourOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourIn, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	// A directory of its own: t.TempDir fails on what a browser writes while it ends.
	profile, err := os.MkdirTemp("", "limitctl-chromium")
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	command := exec.Command(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update",
		"--disable-sync", "--hide-scrollbars", "--force-color-profile=srgb",
		"--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	command.ExtraFiles = []*os.File{theirIn, theirOut} // its descriptors 3 and 4
	command.Stderr = &said
	command.WaitDelay = time.Second
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	theirIn.Close()
	theirOut.Close()
	// A browser that hangs is ended, so that the test fails rather than waits.
	b := &Browser{t: t, to: ourOut, from: bufio.NewReader(ourIn)}
	patience := time.AfterFunc(4*time.Minute, func() { command.Process.Kill() })
	t.Cleanup(func() {
		patience.Stop()
		command.Process.Kill()
		command.Wait()
		ourIn.Close()
		ourOut.Close()
		os.RemoveAll(profile)
		if b.ended {
			t.Logf("Chromium said:\n%s", &said)
		}
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var session struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session)
	b.session = session.SessionID
	b.call("Page.enable", nil, nil)
	b.call("Network.enable", nil, nil)
	b.call("Runtime.enable", nil, nil)
	b.call("Log.enable", nil, nil)
	return b
}

// call makes a call and waits for its answer.
func (b *Browser) call(method string, params any, result any) {
	b.t.Helper()
	b.id++
	request := map[string]any{"id": b.id, "method": method}
	if params != nil {
		request["params"] = params
	}
	if b.session != "" {
		request["sessionId"] = b.session
	}
	text, err := json.Marshal(request)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		b.t.Fatalf("%s: %v", method, err)
	}
	for {
		m := b.next()
		if m.ID != b.id {
			continue
		}
		if m.Error != nil {
			b.t.Fatalf("%s: %s", method, m.Error)
		}
		if result != nil {
			if err := json.Unmarshal(m.Result, result); err != nil {
				b.t.Fatalf("%s: %v in %s", method, err, m.Result)
			}
		}
		return
	}
}

// next reads a message and notes what the page asks for, and what is on its console.
func (b *Browser) next() (m message) {
	b.t.Helper()
	text, err := b.from.ReadBytes(0)
	if err != nil {
		b.ended = true
		b.t.Fatalf("Chromium ended: %v", err)
	}
	if err := json.Unmarshal(text[:len(text)-1], &m); err != nil {
		b.t.Fatalf("%v in %s", err, text)
	}
	if m.Method == "Network.requestWillBeSent" {
		var params struct{ Request struct{ URL string } }
		if err := json.Unmarshal(m.Params, &params); err != nil {
			b.t.Fatal(err)
		}
		b.Asked = append(b.Asked, params.Request.URL)
	}
	switch m.Method {
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
		b.Console = append(b.Console, string(m.Params))
	}
	return m
}

// Show opens a page in a window of that width, in the light or in the dark, or as
// it is printed.
func (b *Browser) Show(page []byte, width int, scheme string) {
	b.t.Helper()
	path := filepath.Join(b.t.TempDir(), "page.html")
	if err := os.WriteFile(path, page, 0o644); err != nil {
		b.t.Fatal(err)
	}
	b.Open("file://"+path, width, scheme)
}

// Open opens the page at a URL in such a window.
func (b *Browser) Open(url string, width int, scheme string) {
	b.t.Helper()
	b.Turn(width, scheme)
	b.Asked, b.Console = nil, nil
	b.call("Page.navigate", map[string]any{"url": url}, nil)
	for b.next().Method != "Page.loadEventFired" {
	}
}

// Turn shows the page that is open in another window. It was loaded once, so what it asks
// for now is among what it asked for.
func (b *Browser) Turn(width int, scheme string) {
	b.t.Helper()
	media := ""
	if scheme == "print" {
		media, scheme = "print", "light"
	}
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false},
		nil)
	b.call(
		"Emulation.setEmulatedMedia",
		map[string]any{"media": media, "features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil,
	)
	is := fmt.Sprintf("innerWidth == %d && matchMedia('(prefers-color-scheme: %s)').matches && matchMedia('print').matches == %t",
		width, scheme, media == "print")
	for done := false; !done; { // until the browser hangs, and is ended
		b.Evaluate(is, &done)
	}
}

// Evaluate has the page reckon a value in JavaScript.
func (b *Browser) Evaluate(expression string, value any) {
	b.t.Helper()
	var result struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true}, &result)
	if result.ExceptionDetails != nil {
		b.t.Fatalf("%s: %s", expression, result.ExceptionDetails)
	}
	if err := json.Unmarshal(result.Result.Value, value); err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
}

// Screenshot returns the whole page as PNG.
func (b *Browser) Screenshot() []byte {
	b.t.Helper()
	var result struct{ Data []byte }
	b.call("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &result)
	return result.Data
}

// Overflowing lists what reaches over the edges of the window, other than what
// scrolls for itself, and texts of axes that overlap.
const Overflowing = `(() => {
	const found = [];
	const width = document.documentElement.clientWidth;
	if (document.documentElement.scrollWidth > width) found.push("the page is " + document.documentElement.scrollWidth + " wide");
	for (const e of document.querySelectorAll("body *")) {
		if (e.closest(".scroll") && !e.matches(".scroll") || e.closest("svg") && !e.matches("svg")) continue;
		const box = e.getBoundingClientRect();
		if (box.width > 0 && (box.right > width + 1 || box.left < -1)) {
			found.push(e.tagName + "." + e.className + " from " + box.left + " to " + box.right);
		}
	}
	for (const axis of document.querySelectorAll(".xs, .ys")) {
		const boxes = [...axis.children].map(e => [e.textContent, e.getBoundingClientRect()]);
		for (const [i, [text, a]] of boxes.entries()) for (const [other, b] of boxes.slice(i + 1))
			if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
				found.push("label " + text + " lies on " + other);
	}
	return found;
})()`

// Keep writes what the tests look at to $LIMITCTL_SCREENSHOTS, for people to look at, too.
func Keep(t *testing.T, name string, data []byte) {
	directory := os.Getenv("LIMITCTL_SCREENSHOTS")
	if directory == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(directory, name), data, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Log("wrote " + name)
}
