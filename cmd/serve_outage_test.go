//go:build unix

package cmd

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
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
		text += fmt.Sprintf("  %s:\n    on_error: %s\n    limits:\n      - {name: long, by: [user], limit: %d/366d}\n", word, word,
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
		case a.status == http.StatusOK && d.Allowed && (policy == "allow" && d.Unguarded || policy == "local" && d.DecidedBy == "local"):
			o.byOthers[policy]++
			o.unknown[policy]++ // the store may have charged it as well
		case a.status == http.StatusTooManyRequests && !d.Allowed && (d.DecidedBy == "store" || policy == "deny" || policy == "local"):
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
		if !slices.ContainsFunc(answers, func(a httpAnswer) bool { return a.err != nil || a.document.DecidedBy != "store" }) {
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
	o.t.Logf("in the outage: by the store %v, by others %v, unknown %v", o.byStore, o.byOthers, o.unknown)
	all := func(policy string) bool { return o.byStore[policy]+o.unknown[policy] >= outageCount }
	for end := time.Now().Add(childPatience); time.Now().Before(end); { // again, if the store was late and others decided
		o.recover(servers)
		o.judge(crowd{"/v1/consume", servers, asked(o.policies...), 16, 2 * outageCount * len(o.policies)}.ask())
		if !slices.ContainsFunc(o.policies, func(policy string) bool { return !all(policy) }) {
			break
		}
	}
	for _, policy := range o.policies {
		if n := o.byStore[policy]; n > outageCount || !all(policy) {
			o.t.Errorf("%s: the store admitted %d and perhaps %d more, want %d", policy, n, o.unknown[policy], outageCount)
		}
	}
	if n := o.byOthers["local"]; n > outageCount/4 {
		o.t.Errorf("the fallback store let %d through, more than its share of %d", n, outageCount/4)
	}
}

// A store that hangs is felt as each policy says: an error, a yes, a no, or the local share. All
// of 256 connections get an answer, and the store decides again once it answers.
func TestServeOutlastsAHungStore(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := startServe(t, "--store", "redis://"+redis.Addr, "--timeout", "300ms", "--config", outagePolicies(t))
	o, servers := newOutage(t), urls([]*served{s})
	o.judge(crowd{"/v1/consume", servers, asked(o.policies...), 256, 5000}.askThrough(map[int]func(){60: redis.Pause, 4000: redis.Resume}))
	if o.byOthers["allow"] == 0 || o.byOthers["local"] == 0 {
		t.Errorf("while the store hung, others allowed %v", o.byOthers)
	}
	o.settle(servers)
	s.end()
}

// The same for a store that dies in the middle of a load and comes back: no unit that it still
// knows of is given twice. It keeps its data in a file of appended commands. It refuses connections at once, so a long
// timeout delays no answer; it gives a busy machine the time for one.
func TestServeOutlastsAStoreThatDies(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always", "--dir", t.TempDir())
	s := startServe(t, "--store", "redis://"+redis.Addr, "--timeout", "20s", "--config", outagePolicies(t))
	o, servers := newOutage(t), urls([]*served{s})
	var restarted error
	o.judge(crowd{"/v1/consume", servers, asked(o.policies...), 64, 4000}.askThrough(map[int]func(){
		60: redis.Kill, 2000: func() { restarted = redis.Restart() },
	}))
	if restarted != nil {
		t.Fatal(restarted)
	}
	o.settle(servers)
	s.end()
}

// When Sentinel makes a replica the master, the server follows, and each answer on the way is one
// that the policy allows. What the old master had admitted last may be forgotten, so it is not
// counted here.
func TestServeFollowsAFailover(t *testing.T) {
	t.Parallel()
	sentinel := redistest.StartSentinel(t)
	s := startServe(t, "--store", "redis+sentinel://"+strings.Join(sentinel.Addrs(), ",")+"/mymaster",
		"--timeout", "20s", "--config", outagePolicies(t))
	o, servers := newOutage(t), urls([]*served{s})
	var old *redistest.Process
	var killed error
	o.judge(crowd{"/v1/consume", servers, asked(o.policies...), 32, 2000}.askThrough(map[int]func(){
		60: func() { old, killed = sentinel.KillMaster() },
	}))
	if killed != nil {
		t.Fatal(killed)
	}
	if err := sentinel.WaitFailover(old); err != nil {
		t.Fatal(err)
	}
	o.recover(servers)
	s.end()
}

// A master of a Cluster that hangs is felt by its own keys: those of the others go on being
// decided by the store, while callers of the hung one wait on most connections.
func TestServeKeepsAHungMasterApart(t *testing.T) {
	cluster := redistest.StartCluster(t, "--cluster-node-timeout", "600000") // the others go on
	const keys = 60
	hung, others := []string{}, []string{}
	for i := range keys {
		subject := fmt.Sprintf("user:%d", i)
		slot, err := cluster.SlotOf("rl:{" + subject + "}")
		if err != nil {
			t.Fatal(err)
		}
		owner, err := cluster.Owner(slot)
		if err != nil {
			t.Fatal(err)
		}
		question := fmt.Sprintf(`{"key":%q,"limits":["%d/366d"]}`, subject, outageCount)
		if owner == 0 {
			hung = append(hung, question)
		} else {
			others = append(others, question)
		}
	}
	s := startServe(t, "--store", "redis+cluster://"+strings.Join(cluster.Addrs(), ","), "--timeout", "10s")
	servers := urls([]*served{s})
	for _, a := range (crowd{"/v1/consume", servers, slices.Concat(hung, others), 16, keys}.ask()) {
		if a.err != nil || a.status != http.StatusOK {
			t.Fatalf("before: %d %+v, %v", a.status, a.document, a.err)
		}
	}
	cluster.Masters[0].Pause()
	defer cluster.Masters[0].Resume()
	loaded := make(chan []httpAnswer, 1)
	go func() { loaded <- crowd{"/v1/consume", servers, hung, 64, 64}.ask() }()
	for _, a := range (crowd{"/v1/consume", servers, others, 64, 2000}.ask()) {
		if a.err != nil || a.document.DecidedBy != "store" {
			t.Fatalf("a key of another master: %d %+v, %v", a.status, a.document, a.err)
		}
	}
	for _, a := range <-loaded {
		if a.err != nil || a.status != http.StatusServiceUnavailable {
			t.Fatalf("a key of the hung master: %d %+v, %v", a.status, a.document, a.err)
		}
	}
	s.end()
}

// A crowd of connections that ask and go leaves neither goroutines nor open files behind.
func TestServeHoldsNothingOfThoseWhoLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux shows the connections of another process")
	}
	s := startServe(t)
	servers := urls([]*served{s})
	connections := func() (n int) {
		folder := fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid)
		entries, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries { // the store opens files of its own when it first needs them
			if to, err := os.Readlink(filepath.Join(folder, entry.Name())); err == nil && strings.HasPrefix(to, "socket:") {
				n++
			}
		}
		return n
	}
	question := []string{`{"key":"user:1","limits":["10/366d"]}`}
	crowd{"/v1/consume", servers, question, 4, 16}.ask()
	before := connections()
	crowd{"/v1/consume", servers, question, 256, 1024}.ask()
	for end := time.Now().Add(childPatience); connections() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections are open, and %d were before", connections(), before)
		}
	}
	s.signal(syscall.SIGTERM)
	if code := s.exit(); code != exitYes {
		t.Errorf("exit code %d: %s", code, &s.stderr)
	}
}
