package cmd

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/hostile"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/internal/tier"
)

// stage is where in a conversation a server becomes hostile: at these commands, or at
// the first of all for none.
type stage []string

var (
	atOnce    = stage{}
	inScripts = stage{"EVALSHA", "EVALSHA_RO", "EVAL", "EVAL_RO"}
	inScans   = stage{"SCAN"}
	inReads   = stage{"GETRANGE"}
	inInfos   = stage{"INFO"}
)

// conversation is a command that talks to a store. There is one for each way in which an answer comes out.
type conversation struct {
	name   string
	args   []string
	stages []stage // where else than at once it can meet a hostile answer
	codes  []int   // its exit codes, beside 3 and 4, whatever the answer is
	// survives says that it can go on: what it asks there is not what it is about.
	survives []stage
	// itself says that it asks servers by itself, too, and not only what a store does for it.
	itself bool
}

func conversations(dir string) []conversation {
	return []conversation{
		{name: "check", args: []string{"check", "user:1", "--limit", "10/1h"}, stages: []stage{inScripts}},
		{name: "inspect all", args: []string{"inspect", "*", "-o", "json"},
			stages:   []stage{inScans, inReads, inScripts, {"DBSIZE"}, {"TIME"}, {"PTTL", "PEXPIRETIME"}},
			survives: []stage{inScripts}}, // it warns that overrides cannot be read
		{name: "undo", args: []string{"undo", filepath.Join(dir, "backup.jsonl"), "--yes"},
			stages: []stage{inScripts, {"XADD"}}, codes: []int{exitPartly}, survives: []stage{{"XADD"}}},
		{name: "reset", args: []string{"reset", "*", "--yes"}, stages: []stage{inScans, inReads, inScripts},
			codes: []int{exitPartly}},
		{name: "handover", args: []string{"handover", "-o", "csv"}, stages: []stage{
			inScripts, {"XREVRANGE"}, {"HGETALL"}},
			codes: []int{exitPartly}, survives: []stage{inScripts, {"XREVRANGE"}, {"HGETALL"}}},
		{name: "doctor", args: []string{"doctor", "--scan-limit", "0"}, // or it ends a scan by its own bound
			stages: []stage{inScans, inReads, inInfos, {"DBSIZE"}, {"TIME"}}, codes: []int{exitNo, exitPartly},
			itself: true},
		{name: "dashboard", args: []string{"dashboard", "--once", "--refresh", "100ms"},
			stages: []stage{inScans, inReads, inScripts, inInfos}, survives: []stage{inInfos, inScripts}, itself: true},
	}
}

// hostileDir has what the conversations need, and returns a server with a few keys.
func hostileDir(t *testing.T) (dir, sound string) {
	t.Helper()
	dir, sound = t.TempDir(), redistest.Start(t, "--maxclients", "9000").Addr
	w := newWorld(t)
	url := "redis://" + sound
	w.run(t, exitYes, "consume", "user:old", "--limit", "10/1h", "--store", url, "--timeout", patience.String())
	w.run(t, exitYes, "reset", "user:old", "--yes", "--backup", filepath.Join(dir, "backup.jsonl"),
		"--store", url, "--timeout", patience.String())
	w.run(t, exitYes, "consume", "user:1", "--limit", "10/1h", "--limit", "fixed-window:10/1d", "--store", url,
		"--timeout",
		patience.String())
	for range 60 { // which is more than one read
		w.run(t, exitYes, "consume", "-q", "user:2", "--limit", "sliding-log:1000/1h", "--store", url, "--timeout",
			patience.String())
	}
	w.run(t, exitYes, "block", "user:8", "--for", "1d", "--reason", "none", "--yes", "--store", url, "--timeout",
		patience.String())
	return dir, sound
}

// hostileTimeout is the --timeout of the conversations at first, and hostilePatience how
// long one may take however busy the machine is: far more than it does, and less than for ever.
const (
	hostileTimeout  = 150 * time.Millisecond
	hostilePatience = 3 * time.Minute
)

// sideBySide runs functions side by side, as many as it has room for, however few the
// processors are: for what mostly waits.
type sideBySide struct {
	room  chan struct{}
	going sync.WaitGroup
}

func newSideBySide(most int) *sideBySide { return &sideBySide{room: make(chan struct{}, most)} }

// do calls f once there is room.
func (s *sideBySide) do(f func()) {
	s.room <- struct{}{}
	s.going.Go(func() {
		defer func() { <-s.room }()
		f()
	})
}

// wait waits until all have ended.
func (s *sideBySide) wait() { s.going.Wait() }

// classes are behaviours that take a defence each, by the names of one that stands for the others: how a
// client ends with each of those is proved in redisserver, and what a store makes of them in redisstore. Here it
// is proved that each command has those defences.
var classes = map[string]string{
	"silent": "silence", "too large": "text that comes", "malformed": "HTTP", "cut": "end in the middle",
	"slow": "dribbled list",
}

// hostileBehaviours are one of each class, and all that RESP allows and that are small.
func hostileBehaviours(t *testing.T) (usual, wrong []hostile.Behaviour) {
	t.Helper()
	for _, b := range hostile.Behaviours() {
		for _, name := range classes {
			if b.Name == name {
				usual = append(usual, b)
			}
		}
		if b.Sound && !strings.HasSuffix(b.Name, "of as much as goes") {
			wrong = append(wrong, b)
		}
	}
	if len(usual) != len(classes) || len(wrong) < 20 {
		t.Fatalf("%d classes and %d wrong answers", len(usual), len(wrong))
	}
	return usual, wrong
}

// Whatever a server answers, a command ends soon, with one line. Each command meets each class, at its stages in turn.
// What asks servers by itself meets each wrong answer.
func TestCommandsOutlastHostileServers(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	t.Parallel()
	dir, sound := hostileDir(t)
	usual, wrong := hostileBehaviours(t)
	all := newSideBySide(4)
	for i, c := range conversations(dir) {
		stages := append([]stage{atOnce}, c.stages...)
		for j, b := range usual {
			all.do(func() { c.meets(t, sound, "redis://%s", stages[(i+j)%len(stages)], b) })
		}
		for j, b := range wrong {
			if c.itself {
				all.do(func() { c.meets(t, sound, "redis://%s", c.stages[j%len(c.stages)], b) })
			}
		}
	}
	all.wait()
}

// meets runs the command on a server, and judges how it ends. The URL is of the store that %s is. It is tried until the
// server was hostile: where a machine is busy a sound answer that comes before can be too late, so each try has more
// time than the last.
func (c *conversation) meets(t *testing.T, sound, url string, stage stage, b hostile.Behaviour) {
	t.Helper()
	timeout := hostileTimeout
	if !b.Late {
		timeout = patience // which it takes only if something is wrong
	}
	for met := false; !met; timeout *= 4 {
		if timeout >= hostilePatience/2 {
			t.Errorf("%s %q, %s: it never came to that", c.name, stage, b.Name)
			return
		}
		server := hostile.Start(t, sound, b, stage...)
		w := newWorld(t)
		if c.name == "dashboard" { // else tries again are by the test's clock
			w.Sleep, w.Now = sys.Sleep, time.Now
		}
		ended := make(chan int, 1)
		go func() { ended <- Run(t.Context(), c.to(fmt.Sprintf(url, server.Addr), timeout), w.Env) }()
		select {
		case code := <-ended:
			problem := c.judge(stage, b, code, w.err.String())
			if problem == "" && code != exitYes && (b.Name == classes["too large"] || b.Name == classes["malformed"]) &&
				!strings.Contains(w.out.String()+w.err.String(), "is not one that Redis gives") {
				problem = "it does not say that this is no answer"
			}
			if problem != "" {
				t.Errorf("%s %q, %s: %s; exit code %d\n%.1000s%.1000s", c.name, stage, b.Name, problem, code,
					&w.out, &w.err)
			}
		case <-time.After(hostilePatience):
			t.Errorf("%s %q, %s: it goes on after %s", c.name, stage, b.Name, hostilePatience)
		}
		server.Stop()
		met = t.Failed() || server.Met() > 0
	}
}

// canSurvive reports whether it can go on after a hostile answer there.
func (c *conversation) canSurvive(at stage) bool {
	return slices.ContainsFunc(c.survives, func(survived stage) bool { return slices.Equal(survived, at) })
}

// to returns the words of the command line for a store.
func (c *conversation) to(url string, timeout time.Duration) []string {
	flags := []string{"--store", url, "--timeout", timeout.String()}
	return append(slices.Clone(c.args), flags...)
}

// judge says what is wrong with how a command ended.
func (c *conversation) judge(stage stage, b hostile.Behaviour, code int, stderr string) string {
	codes := append([]int{exitUnreachable, exitRefused}, c.codes...)
	if c.canSurvive(stage) {
		codes = append(codes, exitYes)
	}
	if c.canSurvive(stage) && b.Spoils { // its other questions may get such answers
		codes = append(codes, exitNo)
	}
	if b.Sound { // what is no answer to one question is one to another
		codes = append(codes, exitYes, exitNo, exitPartly)
	}
	switch {
	case !slices.Contains(codes, code):
		return fmt.Sprintf("it ended with %d", code)
	case strings.Contains(stderr, "panic") || strings.Contains(stderr, "goroutine ") ||
		strings.Contains(stderr, "internal error"):
		return "it panicked"
	case code == exitUnreachable || code == exitRefused:
		// What changes something first says what is about to happen, or that the audit log in the store does not say
		// it.
		lines := slices.DeleteFunc(strings.Split(strings.TrimSuffix(stderr, "\n"), "\n"), func(line string) bool {
			// the progress of a scan that takes long on a busy machine
			return strings.HasPrefix(line, "limitctl: scanning ")
		})
		speaks := slices.Contains([]string{"reset", "undo", "override", "block", "exempt", "unblock"}, c.args[0]) ||
			c.args[0] == "inspect" && slices.Equal(stage, inReads) // which are of overrides, and of limits
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "limitctl: ") || len(lines) > 1 && !speaks {
			return "it did not say so on one line"
		}
	}
	return ""
}
