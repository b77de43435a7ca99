//go:build unix

package cmd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

// httpAnswer is what a server answered to one request, and when it was asked.
type httpAnswer struct {
	question  int // its index
	sent, got time.Time
	status    int
	document  struct {
		Allowed   bool   `json:"allowed"`
		DecidedBy string `json:"decided_by"`
		Unguarded bool   `json:"unguarded"`
		Limits    []struct {
			Allowed   bool  `json:"allowed"`
			Used      int64 `json:"used"`
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
				a.question, a.sent = i%len(c.questions), time.Now()
				a.err = a.post(client, c.servers[i%len(c.servers)]+c.path, c.questions[a.question])
				a.got = time.Now()
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

// ofQuestions are the answers by their questions.
func ofQuestions(answers []httpAnswer, questions int) [][]httpAnswer {
	all := make([][]httpAnswer, questions)
	for _, a := range answers {
		all[a.question] = append(all[a.question], a)
	}
	return all
}

// servedStores are servers of one and the same store, of each kind that services share. They have no breaker, since on a
// busy machine a store can be slow that is not away.
func servedStores(t *testing.T, run func(t *testing.T, servers []*served)) {
	config := filepath.Join(t.TempDir(), "limitctl.yaml")
	if err := os.WriteFile(config, []byte("breaker: {enabled: false}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, servers := range []int{1, 2} {
		t.Run(fmt.Sprintf("Redis and servers: %d", servers), func(t *testing.T) {
			store := "redis://" + redistest.Start(t).Addr
			run(t, startServers(t, servers, "--store", store, "--config", config))
		})
	}
	t.Run("file", func(t *testing.T) { run(t, startServers(t, 1, "--config", config)) })
}

func startServers(t *testing.T, n int, args ...string) (all []*served) {
	for range n {
		all = append(all, startServe(t, args...))
	}
	t.Cleanup(func() {
		for _, s := range all {
			s.end()
		}
	})
	return all
}

func urls(servers []*served) (all []string) {
	for _, s := range servers {
		all = append(all, "http://"+s.addresses["http"])
	}
	return all
}

// Under a limit whose period is longer than the test, exactly as many are allowed as the limit
// says, whoever else asks at the same time, and each is told another number of those that are
// left: the answers are those of some order.
func TestServeAdmitsExactlyTheLimit(t *testing.T) {
	t.Parallel()
	const count, keys, perKey = 50, 3, 150
	servedStores(t, func(t *testing.T, servers []*served) {
		var questions []string
		var answers []httpAnswer
		window := func() int64 { return time.Now().Unix() / (366 * 24 * 60 * 60) }
		for begun := int64(-1); begun != window(); { // a fixed window that ends meanwhile admits as many again
			begun, questions = window(), nil
			for _, algorithm := range []string{"token-bucket", "leaky-bucket", "fixed-window", "sliding-log", "sliding-counter"} {
				for key := range keys {
					questions = append(questions, fmt.Sprintf(`{"key":"user:%d:%d","limits":["%s:%d/366d"]}`, begun, key, algorithm, count))
				}
			}
			answers = crowd{"/v1/consume", urls(servers), questions, 64, perKey * len(questions)}.ask()
		}
		for i, all := range ofQuestions(answers, len(questions)) {
			var told []int64
			for _, a := range all {
				switch {
				case a.err != nil:
					t.Fatalf("%s: %v", questions[i], a.err)
				case a.status == http.StatusOK && a.document.Allowed:
					told = append(told, a.document.Limits[0].Remaining)
				case a.status != http.StatusTooManyRequests || a.document.Allowed || a.document.Limits[0].Remaining != 0:
					t.Fatalf("%s: status %d, %+v", questions[i], a.status, a.document)
				}
			}
			slices.Sort(told)
			if len(told) != count || told[0] != 0 || told[count-1] != count-1 || len(slices.Compact(told)) != count {
				t.Errorf("%s: %d are allowed of %d, and told to have left %v", questions[i], len(told), len(all), told)
			}
		}
	})
}

// Of several limits all are charged or none: the wider one has what the tighter one allowed.
func TestServeChargesAllOrNothing(t *testing.T) {
	t.Parallel()
	const tight, wide, requests = 30, 50, 400
	servedStores(t, func(t *testing.T, servers []*served) {
		question := fmt.Sprintf(`{"key":"user:1","limits":["%d/366d","sliding-counter:%d/366d"]}`, wide, tight)
		allowed := 0
		for _, a := range (crowd{"/v1/consume", urls(servers), []string{question}, 64, requests}.ask()) {
			if a.err != nil {
				t.Fatal(a.err)
			}
			if a.document.Allowed {
				allowed++
			}
		}
		left := crowd{"/v1/check", urls(servers), []string{question}, 1, 1}.ask()[0]
		if left.err != nil || len(left.document.Limits) != 2 {
			t.Fatalf("%v, %+v", left.err, left)
		}
		if used := left.document.Limits[0].Used; allowed != tight || used != tight {
			t.Errorf("%d are allowed and %d are charged to the wider limit, want %d of both", allowed, used, tight)
		}
	})
}

// Limits that let go during the test are judged by what they let through between two instants:
// no more than burst + span × rate of a bucket, and than the count in each period of a log. An
// answer was decided between sent and got, so a span is from the first sent to the last got.
func TestServeAdmitsNoMoreThanTheRate(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	const count, requests = 20, 6000
	period := 500 * time.Millisecond
	bounds := map[string]func(span time.Duration) float64{
		"token-bucket": func(span time.Duration) float64 { return count + count*span.Seconds()/period.Seconds() },
		"leaky-bucket": func(span time.Duration) float64 { return count + count*span.Seconds()/period.Seconds() },
		"sliding-log":  func(span time.Duration) float64 { return float64(count * (1 + span/period)) },
	}
	servedStores(t, func(t *testing.T, servers []*served) {
		var algorithms, questions []string
		for algorithm := range bounds {
			algorithms = append(algorithms, algorithm)
			questions = append(questions, fmt.Sprintf(`{"key":"user:1","limits":["%s:%d/%s"]}`, algorithm, count, period))
		}
		answers := crowd{"/v1/consume", urls(servers), questions, 64, requests}.ask()
		for i, all := range ofQuestions(answers, len(questions)) {
			admitted := slices.DeleteFunc(all, func(a httpAnswer) bool { return !a.document.Allowed })
			slices.SortFunc(admitted, func(a, b httpAnswer) int { return cmp.Compare(a.got.UnixNano(), b.got.UnixNano()) })
			for first := range admitted {
				sent := admitted[first].sent
				for last := first; last < len(admitted); last++ {
					if admitted[last].sent.Before(sent) {
						sent = admitted[last].sent
					}
					span := admitted[last].got.Sub(sent)
					if n := last - first + 1; float64(n) > bounds[algorithms[i]](span)+1e-6 {
						t.Fatalf("%s: %d are admitted within %v", algorithms[i], n, span)
					}
				}
			}
			if len(admitted) < count {
				t.Errorf("%s: only %d are admitted", algorithms[i], len(admitted))
			}
		}
	})
}
