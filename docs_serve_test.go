//go:build unix

package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/tier"
)

// What users paste from docs/serve.md keeps its promises with dishonest clients, and while limitctl is away.
// TestThePagesShowWhatCommandsPrint runs the page itself.
func TestTheProxiesOfThePageWithHostileClients(t *testing.T) {
	tier.Full(t, "proxies: nginx, HAProxy, Caddy")
	const front = "127.0.0.1:8000"
	// If root starts it, nginx stays root, since the directory belongs to the user who runs the test.
	nginx := []string{"nginx", "-e", "nginx.log", "-p", ".", "-c", "nginx.conf", "-g", "daemon off; user root;"}
	open := "proxy_intercept_errors on;\nerror_page 500 502 503 504 = @unlimited;\n}\nlocation @unlimited { return " +
		"204; }"
	for _, c := range []struct {
		name    string
		change  *strings.Replacer // for the page's files
		address string            // of the proxy in the page
		start   []string
		away    int // the status if limitctl is away
	}{
		{"nginx", strings.NewReplacer(), front, nginx, 500},
		{"nginx that lets pass", strings.NewReplacer("proxy_read_timeout    5s;\n        }", open), front,
			nginx, 200},
		{"caddy", strings.NewReplacer(), "127.0.0.1:8001", []string{"caddy", "run", "--config", "Caddyfile"}, 502},
		{"haproxy", strings.NewReplacer(), "127.0.0.1:8002", []string{"haproxy", "-db", "-f", "haproxy.cfg"}, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			ports := map[string]string{}
			var pairs []string
			for _, address := range served {
				ports[address] = freeAddress(t)
				pairs = append(pairs, address, ports[address])
			}
			here := strings.NewReplacer(pairs...)
			for name, text := range filesOfPage(t, "docs/serve.md") {
				changed := here.Replace(c.change.Replace(text))
				if err := os.WriteFile(filepath.Join(dir, name), []byte(changed), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if c.away == http.StatusOK &&
				!strings.Contains(readFile(t, filepath.Join(dir, "nginx.conf")), "@unlimited") {
				t.Fatal("the page's nginx.conf has no place for @unlimited")
			}
			limitctl := startIn(t, dir, "limitctl", "serve", "--listen", ports["127.0.0.1:8080"], "--admin",
				ports["127.0.0.1:9090"])
			awaitAnswer(t, "http://"+ports["127.0.0.1:9090"]+"/readyz")
			if c.start[0] == "nginx" { // it is the application, too
				startIn(t, dir, c.start[0], c.start[1:]...)
			} else {
				app := &http.Server{
					Addr: ports["127.0.0.1:3000"], Handler: http.HandlerFunc(
						func(w http.ResponseWriter, r *http.Request) {
							io.Copy(w, r.Body)
							io.WriteString(w, "hello from the application\n")
						})}
				go app.ListenAndServe()
				t.Cleanup(func() { app.Close() })
				startIn(t, dir, c.start[0], c.start[1:]...)
			}
			awaitAnswer(t, "http://"+ports["127.0.0.1:3000"])
			at := "http://" + ports[c.address]
			awaitOpen(t, ports[c.address])

			// A client that claims another name each time still has only three requests.
			for i := range 5 {
				request, err := http.NewRequest(http.MethodPost, at+"/login?a=b", strings.NewReader("a body\n"))
				if err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"X-Forwarded-For", "X-Real-IP", "Forwarded"} {
					request.Header.Set(name, "203.0.113."+string(rune('1'+i)))
				}
				// It also gets no error for false fields.
				for _, name := range []string{"X-Original-URI", "X-Original-URL", "X-Original-Method"} {
					request.Header.Set(name, "/elsewhere")
				}
				answer, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				if i < 3 {
					if answer.StatusCode != http.StatusOK ||
						!strings.Contains(string(body), "hello from the application") {
						t.Errorf("request %d: %s\n%s", i, answer.Status, body)
					}
				} else if answer.StatusCode != http.StatusTooManyRequests || answer.Header.Get("Retry-After") == "" {
					t.Errorf("request %d: %s, %v", i, answer.Status, answer.Header)
				} else if kind := answer.Header.Get("Content-Type"); kind != "application/problem+json" ||
					!strings.Contains(string(body), "#quota-exceeded") {
					t.Errorf("request %d: a denial of the type %q says %s", i, kind, body)
				}
				if fields := answer.Header.Values("RateLimit"); len(fields) != 1 ||
					!strings.HasPrefix(fields[0], `"client";r=`) {
					t.Errorf("request %d: RateLimit %q", i, fields)
				}
			}

			if err := limitctl.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			limitctl.Wait()
			answer, err := http.Get(at)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != c.away {
				t.Errorf("limitctl is away: %s, want %d", answer.Status, c.away)
			}
		})
	}
}

// filesOfPage returns the files that a page writes with cat. Of several with the same name it returns the first.
func filesOfPage(t *testing.T, path string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, m := range regexp.MustCompile(`(?ms)^cat > (\S+) <<'EOF'\n(.*?)^EOF$`).FindAllStringSubmatch(
		readFile(t, path), -1) {
		if _, has := files[m[1]]; !has {
			files[m[1]] = m[2]
		}
	}
	if len(files) < 5 {
		t.Fatalf("%s has %d files", path, len(files))
	}
	return files
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// startIn starts a program, ends it with the test, and shows its output if the test failed.
func startIn(t *testing.T, dir, program string, args ...string) *exec.Cmd {
	t.Helper()
	tier.Full(t, "proxies: nginx, HAProxy, Caddy")
	said, err := os.CreateTemp(dir, "said")
	if err != nil {
		t.Fatal(err)
	}
	path, err := exec.LookPath(program)
	if err != nil { // Debian's servers are not in every user's PATH
		path = filepath.Join("/usr/sbin", program)
	}
	command := exec.Command(path, args...)
	command.Dir, command.Stdout, command.Stderr = dir, said, said
	command.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME=", "XDG_CONFIG_HOME=", "XDG_DATA_HOME=")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatalf("%v; make setup installs it", err)
	}
	t.Cleanup(func() {
		syscall.Kill(-command.Process.Pid, syscall.SIGTERM)
		command.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", program, readFile(t, said.Name()))
		}
		said.Close()
	})
	return command
}

// awaitOpen waits until somebody listens at an address.
func awaitOpen(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// awaitAnswer waits until something answers at url.
func awaitAnswer(t *testing.T, url string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		answer, err := http.Get(url)
		if err == nil {
			answer.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
