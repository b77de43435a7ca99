package cmd

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/hostile"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/internal/tier"
)

// Whatever the store answers, a server says in one document that it did not decide, and ends in
// order.
func TestServeOutlastsHostileServers(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	t.Parallel()
	_, sound := hostileDir(t)
	ofClass, wrong, _ := hostileBehaviours(t)
	all := newSideBySide(4)
	for i, stage := range []stage{atOnce, inScripts} {
		for _, b := range append(slices.Collect(maps.Values(ofClass)), wrong[i], wrong[len(wrong)-1-i]) {
			all.do(func() {
				untilMet(t, sound, "serve", b, stage, func(server *hostile.Server, timeout time.Duration) string {
					if problem := serveOn(t, "redis://"+server.Addr, timeout, b.Sound); problem != "" {
						t.Errorf("serve %q, %s: %s", stage, b.Name, problem)
					}
					return ""
				})
			})
		}
	}
	all.wait()
}

// serveOn asks a server on a store, ends it, and returns what was wrong. decides says that the
// store may decide.
func serveOn(t *testing.T, url string, timeout time.Duration, decides bool) (problem string) {
	w := newWorld(t)
	w.Sleep, w.Now = sys.Sleep, time.Now
	said, out := io.Pipe()
	w.Out = out
	ctx, cancel := context.WithTimeout(context.Background(), hostilePatience)
	defer cancel()
	ended := make(chan int, 1)
	go func() {
		defer out.Close()
		ended <- Run(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--admin", "off", "-o", "jsonl", "--store", url,
			"--timeout", timeout.String()}, w.Env)
	}()
	var answer struct{ Addresses map[string]string }
	line, err := bufio.NewReader(said).ReadString('\n')
	if err != nil || json.Unmarshal([]byte(line), &answer) != nil {
		return fmt.Sprintf("it says %q and ends with %d: %s", line, <-ended, firstOf(&w.err))
	}
	go io.Copy(io.Discard, said)
	for _, question := range []string{"check", "consume"} {
		if err := asksHostile(ctx, "http://"+answer.Addresses["http"]+"/v1/"+question, decides); err != nil {
			problem += fmt.Sprintf("%s: %v; ", question, err)
		}
	}
	cancel()
	if code := <-ended; code != exitYes || strings.Contains(w.err.String(), "panic") || strings.Contains(w.err.String(), "internal error") {
		problem += fmt.Sprintf("it ends with %d: %s", code, firstOf(&w.err))
	}
	return problem
}

// asksHostile asks, and wants an error as a document of one line, or a decision where the store
// may decide. The connection ends with the answer, so that no server waits for more.
func asksHostile(ctx context.Context, url string, decides bool) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(`{"key":"user:1","limits":["10/1h"]}`))
	if err != nil {
		return err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	var document struct {
		Error struct{ Kind, Message string }
	}
	if err := json.NewDecoder(response.Body).Decode(&document); err != nil {
		return fmt.Errorf("%s: %w", response.Status, err)
	}
	statuses := []int{http.StatusServiceUnavailable, http.StatusBadGateway}
	if decides {
		statuses = append(statuses, http.StatusOK, http.StatusTooManyRequests)
	}
	message := document.Error.Message
	if !slices.Contains(statuses, response.StatusCode) || strings.Contains(message, "\n") ||
		(message == "") != (response.StatusCode == http.StatusOK || response.StatusCode == http.StatusTooManyRequests) {
		return fmt.Errorf("%s, %+v", response.Status, document)
	}
	return nil
}
