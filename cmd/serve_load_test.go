//go:build unix

package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
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
