package page

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/dash"
	"github.com/limitctl/limitctl/cmd/internal/outcome"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/serve/refusal"
)

const (
	// mostLive is how many browsers are told at a time, and mostOfOne how many of them are of one client.
	mostLive, mostOfOne = 64, 16
	// patience is how long a browser may take to read an event before it is dropped.
	patience = 10 * time.Second
	// alive is after how long without a look an event says that the process is there.
	alive = 15 * time.Second
	// fresh is the age of a look that a search is answered by.
	fresh = 3 * time.Second
	// lingers is how long the store is read on after the last browser left.
	lingers = 30 * time.Second
)

// event is an event with the overrides, and without them for a browser that has had them. overrides counts how often they
// became others; it is 0 before the first event.
type event struct {
	whole, brief []byte
	overrides    int
}

// broadcast gives the latest event to all browsers. One that is slow misses events, and delays nobody.
type broadcast struct {
	mu      sync.Mutex
	event   event
	changed chan struct{} // is closed when there is another event
	ended   chan struct{}
	endOnce sync.Once
	clients map[string]int // how many browsers each client has open
	open    int
	left    time.Time // when the last of them left, or a search came
}

func (b *broadcast) begin(now time.Time) {
	b.changed, b.ended, b.clients, b.left = make(chan struct{}), make(chan struct{}), map[string]int{}, now
}

// end ends all streams.
func (b *broadcast) end() { b.endOnce.Do(func() { close(b.ended) }) }

// wanted reports whether anybody looks, or did lately.
func (b *broadcast) wanted(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open > 0 || now.Sub(b.left) < lingers
}

// touch notes that somebody looks.
func (b *broadcast) touch(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = now
}

func (b *broadcast) send(e event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.event = e
	close(b.changed)
	b.changed = make(chan struct{})
}

// next returns the latest event, and what is closed when there is another.
func (b *broadcast) next() (latest event, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.event, b.changed
}

func (b *broadcast) enter(client string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open >= mostLive || b.clients[client] >= mostOfOne {
		return false
	}
	b.open++
	b.clients[client]++
	return true
}

func (b *broadcast) leave(client string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	b.left = now
	if b.clients[client]--; b.clients[client] == 0 {
		delete(b.clients, client)
	}
}

// publish makes an event of a look.
func (p *Page) publish(look *dash.Look) {
	p.latest.Store(look)
	d := p.document(look)
	brief, err := output.JSON(d)
	if err == nil {
		err = p.shown.take(p, look)
	}
	d.Overrides = p.shown.text
	whole, wholeErr := output.JSON(d)
	if err != nil || wholeErr != nil { // texts, numbers and times can always be written
		return
	}
	line := func(text []byte) []byte { return slices.Concat([]byte("data: "), text, []byte("\n\n")) } // a document is on one line
	p.live.send(event{whole: line(whole), brief: line(brief), overrides: p.shown.changes})
}

// serveLive sends events until the browser or the process leaves.
func (p *Page) serveLive(w http.ResponseWriter, r *http.Request) {
	who := client(r)
	if !p.live.enter(who) {
		w.Header().Set("Retry-After", "5")
		refusal.Write(w, outcome.Overloaded.Status, outcome.Overloaded.Word, "too many pages are open; close some, or try again")
		return
	}
	defer func() { p.live.leave(who, p.options.Dash.Now()) }()
	control := http.NewResponseController(w)
	control.SetReadDeadline(time.Time{}) // a listener's bound is for requests that end
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would wait for more
	if r.Method == http.MethodHead {
		return
	}
	send := func(event []byte) bool {
		control.SetWriteDeadline(time.Now().Add(patience))
		if _, err := w.Write(event); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	if !send([]byte(": limitctl\n\n")) {
		return
	}
	quiet := time.NewTicker(alive)
	defer quiet.Stop()
	for had := 0; ; {
		latest, changed := p.live.next()
		text := latest.whole
		if latest.overrides == had {
			text = latest.brief
		}
		if text != nil && !send(text) {
			return
		}
		had = latest.overrides
		for waiting := true; waiting; {
			select {
			case <-changed:
				waiting = false
			case <-quiet.C:
				if !send([]byte(": still here\n\n")) {
					return
				}
			case <-p.live.ended:
				return
			case <-r.Context().Done():
				return
			}
		}
	}
}
