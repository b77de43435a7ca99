//go:build unix

package cmd

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/redistest"
)

// outageCount is the limit of each policy: more than the test asks for never fits.
const outageCount = 40

// outagePolicies are one policy for each word of on_error, under a breaker that soon asks again.
func outagePolicies(t *testing.T) (config string) {
	t.Helper()
	text := "breaker: {failures: 3, pause: 50ms, max_pause: 100ms}\npolicies:\n"
	for _, word := range []string{"fail", "allow", "deny", "local"} {
		text += fmt.Sprintf("  %s:\n    on_error: %s\n    limits:\n      - {name: long, by: [user], limit: %d/366d}\n",
			word, word,
			outageCount)
	}
	config = filepath.Join(t.TempDir(), "limitctl.yaml")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// asked is a question of each policy about one user.
func asked(policies ...string) (questions []string) {
	for _, policy := range policies {
		questions = append(questions, fmt.Sprintf(`{"policy":%q,"attributes":{"user":"42"}}`, policy))
	}
	return questions
}

// outage are the policies' answers while the store was away, and what the store had admitted.
type outage struct {
	t        *testing.T
	policies []string
	byStore  map[string]int // units that the store is known to have admitted, by policy
	unknown  map[string]int // units whose outcome nobody knows
	byOthers map[string]int // units that were allowed without the store
}

func newOutage(t *testing.T) *outage {
	return &outage{t, []string{"fail", "allow", "deny", "local"}, map[string]int{}, map[string]int{}, map[string]int{}}
}

// judge wants that each answer is right, or a clear refusal.
func (o *outage) judge(answers []httpAnswer) {
	o.t.Helper()
	for _, a := range answers {
		policy := o.policies[a.question]
		d := &a.document
		switch {
		case a.err != nil:
			o.t.Errorf("%s: there is no answer: %v", policy, a.err)
		case a.status == http.StatusServiceUnavailable && d.Error.Kind != "" && policy == "fail":
			if d.Outcome == "unknown" {
				o.unknown[policy]++
			}
		case a.status == http.StatusOK && d.Allowed && d.DecidedBy == "store" && !d.Unguarded:
			o.byStore[policy]++
		case a.status == http.StatusOK && d.Allowed && (policy == "allow" && d.Unguarded || policy == "local" &&
			d.DecidedBy == "local"):
			o.byOthers[policy]++
			o.unknown[policy]++ // the store may have charged it as well
		case a.status == http.StatusTooManyRequests && !d.Allowed &&
			(d.DecidedBy == "store" || policy == "deny" || policy == "local"):
			o.unknown[policy]++
		default:
			o.t.Errorf("%s: %d %+v", policy, a.status, *d)
		}
	}
}

// recover asks until the store decides for each policy again.
func (o *outage) recover(servers []string) {
	o.t.Helper()
	for end := time.Now().Add(childPatience); ; {
		answers := crowd{"/v1/check", servers, asked(o.policies...), 1, len(o.policies)}.ask()
		if !slices.ContainsFunc(answers, func(a httpAnswer) bool {
			return a.err != nil ||
				a.document.DecidedBy != "store"
		}) {
			return
		}
		if time.Now().After(end) {
			o.t.Fatalf("the store does not decide again: %+v", answers)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// settle asks for all that is left, and compares what the store admitted in all with the limit.
func (o *outage) settle(servers []string) {
	o.t.Helper()
	all := func(policy string) bool { return o.byStore[policy]+o.unknown[policy] >= outageCount }
	// again, if the store was late and others decided
	for end := time.Now().Add(childPatience); time.Now().Before(end); {
		o.recover(servers)
		o.judge(crowd{"/v1/consume", servers, asked(o.policies...), 16, 2 * outageCount * len(o.policies)}.ask())
		if !slices.ContainsFunc(o.policies, func(policy string) bool { return !all(policy) }) {
			break
		}
	}
	for _, policy := range o.policies {
		if n := o.byStore[policy]; n > outageCount || !all(policy) {
			o.t.Errorf("%s: the store admitted %d and perhaps %d more, want %d", policy, n, o.unknown[policy],
				outageCount)
		}
	}
	if n := o.byOthers["local"]; n > outageCount/4 {
		o.t.Errorf("the fallback store let %d through, more than its share of %d", n, outageCount/4)
	}
}

// A store that hangs, or dies and comes back with its data, is felt as each policy says:
// an error, a yes, a no, or the local share. Every connection gets an answer, the store decides again once it answers,
// and no unit that it still knows of is given twice.
func TestServeOutlastsAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	ask := func(t *testing.T, o *outage, timeout, url string, connections, requests int,
		events map[int]func()) *served {
		s := startServe(t, "--store", url, "--timeout", timeout, "--config", outagePolicies(t))
		o.judge(crowd{"/v1/consume", s.urls(), asked(o.policies...), connections, requests}.askThrough(events))
		return s
	}
	t.Run("hangs", func(t *testing.T) {
		t.Parallel()
		redis, o := redistest.Start(t), newOutage(t)
		s := ask(t, o, "300ms", "redis://"+redis.Addr, 256, 5000, map[int]func(){60: redis.Pause, 4000: redis.Resume})
		if o.byOthers["allow"] == 0 || o.byOthers["local"] == 0 {
			t.Errorf("while the store hung, others allowed %v", o.byOthers)
		}
		o.settle(s.urls())
		s.end()
	})
	// It refuses connections at once, so a long time-out delays no answer; it gives a busy machine the time for one.
	t.Run("dies", func(t *testing.T) {
		t.Parallel()
		redis, o := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--dir", t.TempDir()),
			newOutage(t)
		var restarted error
		s := ask(t, o, "20s", "redis://"+redis.Addr, 64, 4000, map[int]func(){
			60: redis.Kill, 2000: func() { restarted = redis.Restart() },
		})
		if restarted != nil {
			t.Fatal(restarted)
		}
		o.settle(s.urls())
		s.end()
	})
}
