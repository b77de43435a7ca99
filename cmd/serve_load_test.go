//go:build unix

package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
)

// httpAnswer is what a server answered to one request.
type httpAnswer struct {
	question int // its index
	status   int
	document struct {
		Allowed   bool   `json:"allowed"`
		DecidedBy string `json:"decided_by"`
		Unguarded bool   `json:"unguarded"`
		Limits    []struct {
			Remaining int64 `json:"remaining"`
		} `json:"limits"`
		Outcome string `json:"outcome"`
		Error   struct{ Kind, Message string }
	}
	err error // that there is no answer
}

// crowd asks servers over connections that stay open, with a bounded number of requests.
type crowd struct {
	path        string   // of the request, such as /v1/consume
	servers     []string // their URLs, asked in turn
	questions   []string // the bodies, asked in turn
	connections int
	requests    int
}

func (c crowd) ask() []httpAnswer { return c.askThrough(nil) }

// askThrough is ask while things happen: each before the request of its number is sent. The
// other connections go on meanwhile.
func (c crowd) askThrough(events map[int]func()) []httpAnswer {
	transport := &http.Transport{MaxIdleConnsPerHost: c.connections}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: childPatience}
	answers := make([]httpAnswer, c.requests)
	var next atomic.Int64
	var all sync.WaitGroup
	for range c.connections {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < c.requests; i = int(next.Add(1)) - 1 {
				if event := events[i]; event != nil {
					event()
				}
				a := &answers[i]
				a.question = i % len(c.questions)
				a.err = a.post(client, c.servers[i%len(c.servers)]+c.path, c.questions[a.question])
			}
		})
	}
	all.Wait()
	return answers
}

func (a *httpAnswer) post(client *http.Client, url, body string) error {
	response, err := client.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	a.status = response.StatusCode
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &a.document); err != nil {
		return fmt.Errorf("%d %q: %w", a.status, text, err)
	}
	return nil
}

func (s *served) urls() []string { return []string{"http://" + s.addresses["http"]} }

// Under a limit whose period is longer than the test, exactly as many are allowed by two servers of one store as the limit
// says, and each is told another number of those that are left: the answers are those of some order.
func TestServeAdmitsExactlyTheLimit(t *testing.T) {
	t.Parallel()
	const count, perKey = 50, 150
	store := "redis://" + redistest.Start(t).Addr
	var servers []string
	for range 2 {
		// without a breaker, since on a busy machine a store can be slow that is not away
		c := newChild(t, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-o", "jsonl", "--store", store)
		c.file("limitctl.yaml", "breaker: {enabled: false}\n")
		s := c.serving()
		defer s.end()
		servers = append(servers, s.urls()...)
	}
	var questions []string
	var answers []httpAnswer
	window := func() int64 { return time.Now().Unix() / (366 * 24 * 60 * 60) }
	for begun := int64(-1); begun != window(); { // a fixed window that ends meanwhile admits as many again
		begun, questions = window(), nil
		for _, algorithm := range []string{"token-bucket", "leaky-bucket", "fixed-window", "sliding-log", "sliding-counter"} {
			questions = append(questions, fmt.Sprintf(`{"key":"user:%d","limits":["%s:%d/366d"]}`, begun, algorithm, count))
		}
		answers = crowd{"/v1/consume", servers, questions, 64, perKey * len(questions)}.ask()
	}
	told := make([][]int64, len(questions))
	for _, a := range answers {
		switch {
		case a.err != nil:
			t.Fatalf("%s: %v", questions[a.question], a.err)
		case a.status == http.StatusOK && a.document.Allowed:
			told[a.question] = append(told[a.question], a.document.Limits[0].Remaining)
		case a.status != http.StatusTooManyRequests || a.document.Allowed || a.document.Limits[0].Remaining != 0:
			t.Fatalf("%s: status %d, %+v", questions[a.question], a.status, a.document)
		}
	}
	for i, left := range told {
		slices.Sort(left)
		if len(left) != count || left[0] != 0 || left[count-1] != count-1 || len(slices.Compact(left)) != count {
			t.Errorf("%s: %d are allowed, and told to have left %v", questions[i], len(left), left)
		}
	}
}
