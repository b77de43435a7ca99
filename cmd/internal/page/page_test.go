package page

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/dash"
	"github.com/limitctl/limitctl/cmd/internal/serve"
	"github.com/limitctl/limitctl/internal/storecall"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// noon is when the tests are.
var noon = time.Date(2026, 11, 25, 12, 0, 30, 0, time.UTC)

// fixture is a page of a store in memory, at a time that the test sets.
type fixture struct {
	*Page
	t       *testing.T
	store   *memorystore.Store
	now     time.Time
	handler http.Handler
	follows []store.Key
	// overrides are those of the last look, and unread is why they cannot be read.
	overrides *store.OverrideList
	unread    error
	effects   map[string]dash.Effect
}

const script = "<script>document.title='pwned'</script>"

func newFixture(t *testing.T, change func(*Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, now: noon, effects: map[string]dash.Effect{}}
	f.store = memorystore.New(memorystore.WithClock(func() time.Time { return f.now }))
	f.take("tenant:acme", 5, 10)
	f.take(script, 9, 10)
	f.take("tenant:evil:user:<b>42</b>", 1, 10)
	key := store.Key{Subject: "tenant:acme", Name: "n"}
	denials := admin.Denials{Rows: []admin.Denied{{Key: key, Count: 60, Blocked: 7, LastAt: 1, Since: 1}}, Now: 1}
	if err := f.store.AddDenials(t.Context(), denials); err != nil {
		t.Fatal(err)
	}
	for _, o := range []store.Override{
		{Subjects: exactly(t, "tenant:acme"), Effect: store.OverrideTimes, Thousandths: 2000, Reason: "launch of Acme", By: "ann"},
		{Subjects: exactly(t, "tenant:evil:user:<b>42</b>"), Effect: store.OverrideBlock,
			Reason: "<img src=x onerror=alert(1)>", By: "bob"},
	} {
		set, err := f.store.SetOverride(t.Context(), o, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		f.effects[set.ID] = dash.Effect{Keys: 1, Denied: 1.5, LetThrough: map[bool]float64{true: 40}[o.Effect == store.OverrideTimes]}
	}
	o := Options{Describe: func(err error) string { return err.Error() }, Likely: func(string) []store.Key { return nil }}
	o.Dash = dash.Options{Store: f.store, Denials: f.store, Overrides: f.store, Timeout: time.Second, MaxKeys: 100, Where: "memory",
		Refresh: time.Second, Now: func() time.Time { return f.now },
		InForce: func(e *admin.Entry, o *store.Override) store.Limit { return o.Apply(e.Limit) }}
	if change != nil {
		change(&o)
	}
	f.Page = New(o)
	f.handler = f.Handler()
	f.look()
	return f
}

func exactly(t *testing.T, subject string) store.Pattern {
	t.Helper()
	p, err := store.ExactPattern(subject)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (f *fixture) take(subject string, cost, count int64) {
	f.t.Helper()
	key := store.Key{Subject: subject, Name: "n"}
	limit := store.Limit{Algorithm: store.FixedWindow, Count: count, Period: time.Hour}
	if _, err := storecall.New(f.store).Take(f.t.Context(), key, limit, cost); err != nil {
		f.t.Fatal(err)
	}
	f.follows = append(f.follows, key)
}

// look publishes what the loop of the dashboard would.
func (f *fixture) look() {
	f.t.Helper()
	all, _, err := f.store.Overrides(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	if f.overrides == nil || len(f.overrides.All()) != len(all) { // as the loop does, which keeps the list while it is the same
		f.overrides = store.NewOverrideList(all)
	}
	look := &dash.Look{At: f.now, Answered: f.now, Where: "memory", Followed: f.follows, AtLimitExact: true, DenialsKnown: true,
		Denied: 2.5, Overrides: f.overrides, OverridesProblem: f.unread, Effects: f.effects}
	look.Coverage.Passes, look.Coverage.Matched = 1, int64(len(f.follows))
	readings, err := dash.ReadKeys(f.t.Context(), &f.options.Dash, look.Overrides, f.follows)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range readings {
		row := dash.LookRow{Reading: readings[i], LimitName: "n", Override: look.Overrides.For(readings[i].Key)}
		if row.Key.Subject == script {
			row.Denied, row.Share = 2.5, 0.5
		}
		look.Rows = append(look.Rows, row)
	}
	f.publish(look)
}

// get asks, as somebody on this machine unless change says otherwise.
func (f *fixture) get(path string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host, r.RemoteAddr = "127.0.0.1:8081", "127.0.0.1:999"
	if change != nil {
		change(r)
	}
	if f.latest.Load() == nil || f.now.Sub(f.latest.Load().At) >= fresh { // as the loop does
		f.look()
	}
	w := httptest.NewRecorder()
	f.handler.ServeHTTP(w, r)
	return w
}

func (f *fixture) subject(query string) (d subjectDocument) {
	f.t.Helper()
	f.now = f.now.Add(2 * time.Second) // so that as many searches as a test needs are answered
	w := f.get("/api/subject?subject="+query, nil)
	if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != http.StatusOK {
		f.t.Fatalf("%s: %d %s %v", query, w.Code, w.Body, err)
	}
	return d
}

func TestASubjectIsToldAsCheckWould(t *testing.T) {
	f := newFixture(t, nil)
	d := f.subject("tenant:acme")
	if len(d.Limits) != 1 || !d.Whole || len(d.Overrides) != 1 {
		t.Fatalf("%+v", d)
	}
	l := d.Limits[0]
	if want := "allowed: 5 of 20 used, 15 remaining, resets in 59m28s"; l.Sentence != want || !l.Allowed {
		t.Errorf("it says %q, want %q", l.Sentence, want)
	}
	if o := d.Overrides[0]; o.Effect != "×2" || o.Reason != "launch of Acme" || len(o.DecidesFor) != 1 || o.DecidesFor[0] != "n" ||
		o.DeniedPerSecond != 1.5 || o.LetThroughPerSecond != 40 {
		t.Errorf("in force on it: %+v", o)
	}
	if got := l.Denied; got == nil || got.Count != 60 || got.Blocked != 7 || len(got.PerMinute) != 60 || got.PerMinute[59] != 60 ||
		got.PerMinute[58] != 0 || got.Since == nil || !got.Since.Equal(noon) {
		t.Errorf("denied: %+v", got)
	}
	d = f.subject("tenant:evil:user:%3Cb%3E42%3C/b%3E")
	if len(d.Limits) != 1 || d.Limits[0].Allowed ||
		!strings.HasPrefix(d.Limits[0].Sentence, "denied by a block: 1 of 10 used, 0 remaining") {
		t.Errorf("a blocked one: %+v", d.Limits)
	}
	if d = f.subject("nobody"); len(d.Limits) != 0 || len(d.Overrides) != 0 {
		t.Errorf("nobody has %+v", d)
	}
}

// A search changes nothing: not what is used, and not who was denied.
func TestASearchTakesNothing(t *testing.T) {
	f := newFixture(t, nil)
	for range 20 {
		if d := f.subject("tenant:acme"); !strings.Contains(d.Limits[0].Sentence, " 5 of 20 used") {
			t.Fatal(d.Limits[0].Sentence)
		}
	}
}

func TestThePageIsOnlyRead(t *testing.T) {
	f := newFixture(t, nil)
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE"} {
		for _, path := range []string{"/", "/api/live", "/api/subject?subject=a"} {
			if w := f.get(path, func(r *http.Request) { r.Method = method }); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
	w := f.get("/", func(r *http.Request) { r.Method = http.MethodHead })
	if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("HEAD /: %d %v", w.Code, w.Header())
	}
}

// A page of a stranger whose name resolves to this machine reads nothing, nor does one that asks across.
func TestForeignNamesAndPagesAreRefused(t *testing.T) {
	f := newFixture(t, nil)
	for host, want := range map[string]int{"localhost": 200, "LOCALHOST:1": 200, "127.0.0.1": 200, "[::1]:8081": 200, "127.9.9.9:1": 200,
		"evil.example": 421, "localhost.evil.example": 421, "127.0.0.1.evil.example:8081": 421, "192.0.2.1": 421, "0.0.0.0": 421, "": 421} {
		if w := f.get("/api/subject?subject=a", func(r *http.Request) { r.Host = host }); w.Code != want {
			t.Errorf("the host %q: %d, want %d", host, w.Code, want)
		}
		f.now = f.now.Add(time.Second)
	}
	for site, want := range map[string]int{"same-origin": 200, "none": 200, "cross-site": 403, "same-site": 403} {
		if w := f.get("/api/subject?subject=a", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", site) }); w.Code != want {
			t.Errorf("from %s: %d, want %d", site, w.Code, want)
		}
		f.now = f.now.Add(time.Second)
	}
}

func TestDataNeedsTheTokenAndThePageDoesNot(t *testing.T) {
	tokens, err := serve.ParseAccessTokens([]byte("0123456789abcdef\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, func(o *Options) { o.Guard = tokens.Readers })
	foreign := func(r *http.Request) { r.Host = "page.example" } // behind a proxy
	for path, want := range map[string]int{"/": 200, "/page.js": 200, "/page.css": 200,
		"/api/live": 401, "/api/subject?subject=a": 401, "/x": 401} {
		if w := f.get(path, foreign); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	w := f.get("/api/subject?subject=a", func(r *http.Request) { r.Header.Set("X-Limitctl-Authorization", "Bearer 0123456789abcdef") })
	if w.Code != http.StatusOK {
		t.Errorf("with the token: %d %s", w.Code, w.Body)
	}
}

// A browser gets the overrides with its first event, and then when they are others: there can be a thousand of them.
func TestOverridesComeWhenTheyChange(t *testing.T) {
	f := newFixture(t, nil)
	server := httptest.NewServer(f.handler)
	defer server.Close()
	defer f.Stop()
	open := func() (next func() string) {
		t.Helper()
		answer, err := server.Client().Get(server.URL + "/api/live")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		lines := bufio.NewScanner(answer.Body)
		return func() string {
			for lines.Scan() {
				text, isEvent := strings.CutPrefix(lines.Text(), "data: ")
				if !isEvent {
					continue
				}
				var d struct {
					Rows      []json.RawMessage
					Overrides json.RawMessage
				}
				if err := json.Unmarshal([]byte(text), &d); err != nil || d.Rows == nil {
					t.Fatalf("%v: %s", err, text)
				}
				return string(d.Overrides)
			}
			t.Fatal("the stream has ended")
			return ""
		}
	}
	both := func(text string) bool { return strings.Count(text, `"id"`) == 2 && strings.Contains(text, `"ends_at"`) }
	first := open()
	if got := first(); !both(got) {
		t.Errorf("the first event has %s", got)
	}
	f.look()
	if got := first(); got != "" {
		t.Errorf("the next has again %s", got)
	}
	second := open()
	if got := second(); !both(got) {
		t.Errorf("the first of another browser has %s", got)
	}
	all := f.overrides.All()
	if _, _, err := f.store.RevokeOverride(t.Context(), all[0].ID); err != nil {
		t.Fatal(err)
	}
	f.look()
	for i, next := range []func() string{first, second} {
		if got := next(); strings.Count(got, `"id"`) != 1 || strings.Contains(got, all[0].ID) {
			t.Errorf("after a change browser %d has %s", i, got)
		}
	}
	f.unread = errors.New("no right")
	f.look()
	if got := first(); got != "null" {
		t.Errorf("if they cannot be read it is %s", got)
	}
	f.unread = nil
	f.now = f.now.Add(time.Hour) // both have ended, though the list is the same
	f.look()
	if got := first(); got != "[]" {
		t.Errorf("after their end it is %s", got)
	}
}

func TestMaskedSubjectsAreNowhere(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Mask = true })
	latest, _ := f.live.next()
	event := latest.whole
	var live liveDocument
	if err := json.Unmarshal([]byte(strings.TrimPrefix(string(event), "data: ")), &live); err != nil {
		t.Fatal(err)
	}
	masked := f.mask.subject("tenant:acme")
	answer := f.get("/api/subject?subject="+masked, nil).Body.String()
	for _, secret := range []string{"acme", "Acme", "script", "evil", "b\\u003e", "<b>", "launch", "ann", "bob"} {
		if strings.Contains(string(event), secret) || strings.Contains(answer, secret) {
			t.Errorf("%q is shown: %s %s", secret, event, answer)
		}
	}
	if d := f.subject(masked); len(d.Limits) != 1 || d.Subject != masked || !strings.HasPrefix(masked, "tenant:~") {
		t.Errorf("%s has %+v", masked, d)
	}
	if !live.Masked || len(live.Rows) != 3 {
		t.Errorf("%+v", live)
	}
	var inForce []overrideDocument
	if err := json.Unmarshal(live.Overrides, &inForce); err != nil || len(inForce) != 2 {
		t.Fatalf("%s: %v", live.Overrides, err)
	}
	for _, o := range inForce {
		if want := (effectDocument{1.5, map[bool]float64{false: 40}[o.Block]}); live.Effects[o.ID] != want {
			t.Errorf("%+v does %+v, want %+v", o, live.Effects[o.ID], want)
		}
	}
}

// One client that asks too often is refused, and takes nothing from the others.
func TestOneSickClientIsNotEverybodysOutage(t *testing.T) {
	f := newFixture(t, nil)
	search := func(from string) int {
		return f.get("/api/subject?subject=a", func(r *http.Request) { r.RemoteAddr = from }).Code
	}
	refused := 0
	for range 100 {
		if search("192.0.2.1:1") == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused != 100-searchesOfOne {
		t.Errorf("%d of 100 searches are refused, want all but %d", refused, searchesOfOne)
	}
	if code := search("192.0.2.2:1"); code != http.StatusOK {
		t.Errorf("another client gets %d", code)
	}
	// An IPv6 client has many addresses.
	refused = 0
	for i := range 10 {
		if search(fmt.Sprintf("[2001:db8::%x]:1", i+1)) == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused != 10-searchesOfOne {
		t.Errorf("%d of 10 addresses of a network are refused", refused)
	}
	for i := range mostOfOne {
		if !f.live.enter("a") {
			t.Fatalf("stream %d is refused", i)
		}
	}
	if f.live.enter("a") || !f.live.enter("b") {
		t.Error("one client has more streams than its own, or takes those of another")
	}
	for f.live.enter(fmt.Sprint(f.live.open)) {
	}
	if f.live.open != mostLive {
		t.Errorf("%d streams are open, want %d", f.live.open, mostLive)
	}
	if w := f.get("/api/live", nil); w.Code != http.StatusServiceUnavailable {
		t.Errorf("one more stream: %d", w.Code)
	}
}

// The table of denials is read once for all who search, even if the one who came first left.
func TestTheHourIsReadOnceForAll(t *testing.T) {
	reads := 0
	f := newFixture(t, nil)
	table := f.denials
	f.denials = func(ctx context.Context, last time.Duration) (admin.Denials, error) {
		reads++
		if err := ctx.Err(); err != nil {
			return admin.Denials{}, err
		}
		return table(ctx, last)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	if h := f.deniedInAnHour(left); h.err != nil {
		t.Errorf("who left spoils it: %v", h.err)
	}
	for range 4 {
		f.subject("tenant:acme")
	}
	if reads != 1 {
		t.Errorf("%d reads in 8 seconds, want 1", reads)
	}
	f.now = f.now.Add(hourFor)
	if f.subject("tenant:acme"); reads != 2 {
		t.Errorf("%d reads after that, want 2", reads)
	}
}

// brokenStore cannot be read.
type brokenStore struct{ *memorystore.Store }

func (brokenStore) Denials(context.Context, time.Duration) (admin.Denials, error) {
	return admin.Denials{}, errors.New("gone")
}

func TestDenialsThatCannotBeReadAreSaidAndTheRestIsShown(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Dash.Denials = brokenStore{} })
	if d := f.subject("tenant:acme"); d.DenialsProblem != "gone" || d.Limits[0].Denied != nil {
		t.Errorf("%+v", d)
	}
}

func TestBadSubjectsAreOneClearLine(t *testing.T) {
	f := newFixture(t, nil)
	for _, query := range []string{"", "%00", strings.Repeat("a", 5000), "%ff"} {
		f.now = f.now.Add(time.Second)
		w := f.get("/api/subject?subject="+query, nil)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "no subject: ") ||
			strings.Count(w.Body.String(), "\n") > 1 {
			t.Errorf("%.20q: %d %s", query, w.Code, w.Body)
		}
	}
}

// A search is answered by what is known now, and not by a look from before a rest.
func TestASearchWaitsForAFreshLook(t *testing.T) {
	f := newFixture(t, nil)
	f.take("tenant:acme", 1, 10)
	f.look()
	for _, test := range []struct {
		age  time.Duration
		want int
	}{{fresh - time.Millisecond, http.StatusOK}, {fresh, http.StatusServiceUnavailable}} {
		f.now = f.latest.Load().At.Add(test.age)
		r := httptest.NewRequest(http.MethodGet, "/api/subject?subject=tenant:acme", nil)
		r.Host, r.RemoteAddr = "127.0.0.1:8081", "127.0.0.1:999"
		w := httptest.NewRecorder()
		if f.handler.ServeHTTP(w, r); w.Code != test.want {
			t.Errorf("after %s: %d %s", test.age, w.Code, w.Body)
		}
	}
}

// A name that is cut, so that its attributes cannot be told from it, shows none of them.
func TestAMaskedNameShowsNoAttributes(t *testing.T) {
	const cut = "api/lim:email:carol@example.com:rou…e7677c5503595e88"
	var unmasked *mask
	if got := newMask().limit(cut); got != "api/lim" {
		t.Errorf("it is shown as %q", got)
	}
	if got := newMask().limit("api/user"); got != "api/user" {
		t.Errorf("a whole name is shown as %q", got)
	}
	if got := unmasked.limit(cut); got != cut {
		t.Errorf("without a mask it is shown as %q", got)
	}
}
