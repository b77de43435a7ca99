package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/serve"
	"github.com/limitctl/limitctl/internal/browsertest"
)

// until waits until an expression is true in the page. A browser that hangs is ended, so that the test fails.
func until(b *browsertest.Browser, expression string) {
	for done := false; !done; {
		b.Evaluate(expression, &done)
	}
}

// The page is used in a real browser, as people do: it is told by itself, a subject is searched, names are text.
func TestThePageInABrowser(t *testing.T) {
	b := browsertest.New(t)
	f := newFixture(t, nil)
	f.take("tenant:"+strings.Repeat("x", 200)+":user:42", 10, 10)
	f.look()
	server := httptest.NewServer(f.handler)
	defer server.Close()
	defer f.Stop() // first, since the server waits for its streams
	for _, width := range []int{360, 800, 1280} {
		for _, scheme := range []string{"light", "dark"} {
			where := fmt.Sprintf("page-%d-%s", width, scheme)
			b.Open(server.URL+"/", width, scheme)
			until(b, `document.querySelectorAll("#near .row").length === 3 && document.querySelectorAll("#top .row").length === 1`)
			f.now = f.now.Add(hourFor)
			f.look()
			b.Evaluate(`document.querySelector("#subject").value = "tenant:acme",
				document.querySelector("#search").requestSubmit(), 0`, new(int))
			until(b, `document.querySelector("#found-limits").textContent.includes("5 of 20 used, 15 remaining")`)
			var problems []string
			if b.Evaluate(browsertest.Overflowing, &problems); len(problems) > 0 {
				t.Errorf("%s: %q", where, problems)
			}
			var bars, added int
			b.Evaluate(`document.querySelectorAll("#found .bars rect").length`, &bars)
			b.Evaluate(`document.querySelectorAll("body script, img, iframe, object, embed, b b, [onload], [onerror], [style]").length`,
				&added)
			var title, top string
			b.Evaluate("document.title", &title)
			b.Evaluate(`document.querySelector("#top .name").textContent`, &top)
			if bars != minutes || added != 0 || title != "limitctl" || top != script {
				t.Errorf("%s: %d bars, %d elements that names brought, the title %q, and first %q", where, bars, added, title, top)
			}
			if !strings.Contains(fmt.Sprint(b.Asked), "/page.js") {
				t.Errorf("%s: it asked for %q", where, b.Asked)
			}
			for _, url := range b.Asked {
				if !strings.HasPrefix(url, server.URL+"/") {
					t.Errorf("%s: it asks elsewhere: %s", where, url)
				}
			}
			browsertest.Keep(t, where+".png", b.Screenshot())
		}
	}
	// Overrides come only when they change, and what is left of them goes down all the same.
	for _, later := range []time.Duration{0, 10 * time.Minute} {
		now := f.now
		f.now = now.Add(later)
		f.look()
		left := fmt.Sprintf("%.0fm left", f.overrides.All()[0].ExpiresAt.Sub(f.now).Minutes())
		const shown = `[...document.querySelectorAll("#overrides .row")].filter((e) => e.textContent.includes(%q)).length === 2`
		until(b, fmt.Sprintf(shown, left))
		f.now = now
	}
	f.look()
	// What happens next comes by itself, and the one that is searched for is clicked on.
	f.take("tenant:new", 7, 10)
	f.look()
	until(b, `document.querySelector("#near").textContent.includes("tenant:new")`)
	f.now = f.now.Add(hourFor)
	f.look()
	b.Evaluate(`[...document.querySelectorAll("#near button.name")].find((e) => e.textContent.includes("evil")).click(), 0`, new(int))
	until(b, `document.querySelector("#found-limits").textContent.includes("denied by a block")`)
	until(b, `document.querySelector("#found-overrides").textContent.includes("<img src=x onerror=alert(1)>")`)
	f.Stop()
	until(b, `!document.querySelector("#problem").hidden`)
	var problem string
	if b.Evaluate(`document.querySelector("#problem").textContent`, &problem); problem != "the server has ended the connection" {
		t.Errorf("when the server ends, it says %q", problem)
	}
}

func TestThePageAsksForTheTokenInABrowser(t *testing.T) {
	b := browsertest.New(t)
	tokens, err := serve.ParseAccessTokens([]byte("0123456789abcdef\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, func(o *Options) { o.Guard = tokens.Readers })
	mux := http.NewServeMux()
	mux.Handle("/dashboard/", http.StripPrefix("/dashboard", f.handler)) // as serve has it
	server := httptest.NewServer(mux)
	defer server.Close()
	defer f.Stop()
	b.Open(server.URL+"/dashboard/", 360, "light")
	enter := func(token string) {
		until(b, `!document.querySelector("#login").hidden`)
		b.Evaluate(fmt.Sprintf(`document.querySelector("#token").value = %q, document.querySelector("#login").requestSubmit(), 0`, token),
			new(int))
	}
	enter("wrong-wrong-wrong")
	until(b, `document.querySelector("#problem").textContent.includes("access token")`)
	browsertest.Keep(t, "page-login.png", b.Screenshot())
	enter("0123456789abcdef")
	until(b, `!document.querySelector("#main").hidden && document.querySelectorAll("#near .row").length === 2`)
}
