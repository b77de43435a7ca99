package api

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/configfile"
	"github.com/limitctl/limitctl/internal/serve"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
)

// Consume and forward-auth hold a request until its turn. Those who are held are bounded, and keep no others out. A
// check, a list and one too many are answered at once.
func TestARequestIsHeldUntilItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := &policy.Policy{Name: "held", Wait: 3 * time.Second, Limits: []policy.Limit{
			{Limit: limiter.Per("ip", 1, time.Second), By: []string{"ip"}},
		}}
		rule := httplimit.Rule{Attributes: map[string]httplimit.Source{"ip": httplimit.MustSource("value:a")}}
		settings := &engine.Settings{File: configfile.File{
			Policies: []*policy.Policy{held}, HTTP: httplimit.Settings{Rules: map[string]httplimit.Rule{"held": rule}},
		}}
		e := engine.New(memorystore.New(), settings, engine.Options{Timeout: time.Minute})
		defer e.Close()
		gate, waiting := serve.NewGate(1, func() { t.Error("a request is kept out") }), serve.NewGate(2, func() {})
		listener := Handler(e, Options{Gate: gate, Held: waiting})
		begin, answers := time.Now(), ""
		var writing sync.Mutex
		send := func(path, body string) {
			w := httptest.NewRecorder()
			r := httptest.NewRequest("POST", path, strings.NewReader(body))
			r.RemoteAddr = "127.0.0.1:1"
			listener.ServeHTTP(w, r)
			writing.Lock()
			defer writing.Unlock()
			answers += fmt.Sprintf("%s %d after %s\n", path[len("/v1/"):], w.Code, time.Since(begin))
		}
		const one = `{"policy":"held","attributes":{"ip":"a"}}`
		send("/v1/consume", one)
		var all sync.WaitGroup
		for _, path := range []string{"/v1/consume", "/v1/auth/held"} {
			all.Go(func() { send(path, map[bool]string{true: one}[path == "/v1/consume"]) })
			synctest.Wait()
		}
		if waiting.Inside() != 2 || gate.Inside() != 0 {
			t.Errorf("%d are held, and %d in flight", waiting.Inside(), gate.Inside())
		}
		send("/v1/consume", one)
		send("/v1/check", one)
		send("/v1/consume", `{"key":"a","limits":["1/1h"]}`)
		all.Wait()
		if waiting.Inside() != 0 || gate.Inside() != 0 {
			t.Errorf("at the end %d are held, and %d in flight", waiting.Inside(), gate.Inside())
		}
		const want = "consume 200 after 0s\nconsume 429 after 0s\ncheck 429 after 0s\n" +
			"consume 200 after 0s\nconsume 200 after 1s\nauth/held 204 after 2s\n"
		if answers != want {
			t.Errorf("the answers are\n%s", answers)
		}
	})
}
