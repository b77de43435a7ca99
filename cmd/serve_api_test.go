package cmd

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/serve/api"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const servedConfig = `policies:
  login:
    on_error: local
    limits:
      - {name: ip, by: [ip], limit: 3/1h}
      - {name: email, by: [email], limit: 100/1d, shadow: true, overrides: [{when: {plan: gold}, limit: 200/1d}]}
`

// TestTheServerAnswersAsTheCommandsDo asks the same of one store by command and over HTTP, each
// for a subject of its own, and compares the documents.
func TestTheServerAnswersAsTheCommandsDo(t *testing.T) {
	server := redistest.Start(t)
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "limitctl.yaml")
	if err := os.WriteFile(file, []byte(servedConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	listener := servedListener(t, "redis://"+server.Addr, file)
	begin := time.Now() // what is left of a limit depends on all that was asked before
	for _, test := range []struct {
		command, verb, body string
		exit, status        int
	}{
		{"consume ME:a -l 2/1h -c 2", "consume", `{"key":"ME:a","limits":["2/1h"],"cost":2}`, 0, 200},
		{"consume ME:a -l 2/1h", "consume", `{"key":"ME:a","limits":["2/1h"]}`, 1, 429},
		{"check ME:a -l 2/1h", "check", `{"key":"ME:a","limits":["2/1h"]}`, 1, 429},
		{"consume ME:a -l 2/1h -c 3 --force", "consume", `{"key":"ME:a","limits":["2/1h"],"cost":3,"force":true}`, 0, 200},
		{"refund ME:a -l 2/1h -c 4", "refund", `{"key":"ME:a","limits":["2/1h"],"cost":4}`, 0, 200},
		{"consume ME:a -l 2/1h --up-to 5", "consume", `{"key":"ME:a","limits":["2/1h"],"up_to":5}`, 0, 200},
		{"refund ME:none -l 2/1h", "refund", `{"key":"ME:none","limits":["2/1h"]}`, 1, 200},
		{"consume ME:b -l sliding-counter:9/1h,slices=6 -l leaky-bucket:9/1m -l fixed-window:5/1d", "consume",
			`{"key":"ME:b","limits":["sliding-counter:9/1h,slices=6","leaky-bucket:9/1m","fixed-window:5/1d"]}`, 0, 200},
		{"consume ME:c -l 9/1h -c 4 --token ME1", "consume", `{"key":"ME:c","limits":["9/1h"],"cost":4,"token":"ME1"}`, 0, 200},
		{"consume ME:c -l 9/1h -c 4 --token ME1", "consume", `{"key":"ME:c","limits":["9/1h"],"cost":4,"token":"ME1"}`, 0, 200},
		{"consume ME:c -l 9/1h -c 5 --token ME1", "consume", `{"key":"ME:c","limits":["9/1h"],"cost":5,"token":"ME1"}`, 2, 400},
		{"settle ME:c -l 9/1h -c 6 --token ME1", "settle", `{"key":"ME:c","limits":["9/1h"],"cost":6,"token":"ME1"}`, 0, 200},
		{"settle ME:c -l 9/1h -c 6 --token ME2", "settle", `{"key":"ME:c","limits":["9/1h"],"cost":6,"token":"ME2"}`, 1, 409},
		{"consume --policy login ip=ME email=ME@a plan=gold", "consume",
			`{"policy":"login","attributes":{"ip":"ME","email":"ME@a","plan":"gold"}}`, 0, 200},
		{"consume --policy login email=ME@a ip=ME -c 3", "consume",
			`{"policy":"login","attributes":{"email":"ME@a","ip":"ME"},"cost":3}`, 1, 429},
		{"consume --policy login ip=ME", "consume", `{"policy":"login","attributes":{"ip":"ME"}}`, 2, 400},
		{"refund --policy login email=ME@a ip=ME", "refund", `{"policy":"login","attributes":{"email":"ME@a","ip":"ME"}}`, 0, 200},
	} {
		command := func(subject string) (stdout string) {
			stdout, _ = w.run(t, test.exit, append(strings.Fields(strings.ReplaceAll(test.command, "ME", subject)),
				"--store", "redis://"+server.Addr, "--config", file, "-o", "json")...)
			return strings.ReplaceAll(stdout, subject, "web")
		}
		before := command("cli")
		recorder := httptest.NewRecorder()
		listener.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/v1/"+test.verb,
			strings.NewReader(strings.ReplaceAll(test.body, "ME", "web"))))
		after := command("too") // in the window of the server's answer, if that of the command before has ended
		passed := float64(time.Since(begin).Milliseconds() + 2)
		if recorder.Code != test.status {
			t.Errorf("%s: %d %s, want %d", test.command, recorder.Code, recorder.Body, test.status)
		}
		got := documentOf(t, recorder.Body.String())
		if !alike(documentOf(t, before), got, passed) && !alike(documentOf(t, after), got, passed) {
			t.Errorf("%s:\nthe command prints %s\nthe server answers %s", test.command, before, recorder.Body)
		}
	}
}

// servedListener is the JSON listener of a store, as serve makes it.
func servedListener(t *testing.T, url, file string) http.Handler {
	backend, _, err := connect.Open(url, connect.Options{Prefix: store.DefaultPrefix})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(file, text, func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	settings := &engine.Settings{File: configfile.File{Policies: c.Policies, HTTP: c.HTTP}}
	e := engine.New(backend, settings, engine.Options{Timeout: time.Minute})
	t.Cleanup(func() {
		e.Close()
		backend.Close()
	})
	return api.Handler(e, api.Options{})
}

func documentOf(t *testing.T, text string) (document map[string]any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &document); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return document
}

// alike compares two documents that were made so many milliseconds apart: times can differ by
// that.
func alike(a, b any, passed float64) bool {
	switch a := a.(type) {
	case map[string]any:
		b, is := b.(map[string]any)
		if !is || len(a) != len(b) {
			return false
		}
		for name, value := range a {
			x, _ := value.(float64)
			y, has := b[name].(float64)
			if strings.HasSuffix(name, "_after_ms") && has && x-y <= passed && y-x <= passed {
				continue
			}
			if !alike(value, b[name], passed) {
				return false
			}
		}
		return true
	case []any:
		b, is := b.([]any)
		if !is || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !alike(a[i], b[i], passed) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}
