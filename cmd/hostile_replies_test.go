package cmd

import (
	"bytes"
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
	inSizes   = stage{"DBSIZE"}
	inTimes   = stage{"TIME"}
	inInfos   = stage{"INFO"}
	inExpiry  = stage{"PTTL", "PEXPIRETIME"}
	inAudit   = stage{"XADD"}
	inJournal = stage{"XREVRANGE"}
	inDenials = stage{"HGETALL"}
)

// conversation is a command that talks to a store. There is one for each way of asking it.
type conversation struct {
	name   string
	args   []string
	stages []stage // where else than at once it can meet a hostile answer
	// codes are the exit codes that are right, beside 3 and 4, whatever the answer is.
	codes []int
	// survives says that it can go on: what it asks there is not what it is about.
	survives []stage
	// late is how it ends where it can go on and no sound answer came in time. Whether one does
	// is the machine's doing, so such an end is not judged as long as there is more time to give.
	late string
	// itself says that it asks servers by itself, too, and not only what a store does for it.
	itself bool
}

func conversations(dir string) []conversation {
	return []conversation{
		{name: "check", args: []string{"check", "user:1", "--limit", "10/1h"}, stages: []stage{inScripts, inReads},
			survives: []stage{inReads}},
		{name: "inspect all", args: []string{"inspect", "*"}, stages: []stage{inScans, inReads, inScripts, inSizes, inTimes, inExpiry}},
		{name: "reset", args: []string{"reset", "*", "--yes"}, stages: []stage{inScans, inReads, inScripts}, codes: []int{exitPartly}},
		{name: "undo", args: []string{"undo", filepath.Join(dir, "backup.jsonl"), "--yes"},
			stages: []stage{inScripts, inAudit}, codes: []int{exitPartly}, survives: []stage{inAudit}},
		{name: "override set", args: []string{"override", "set", "user:*", "--times", "2", "--for", "1h", "--reason", "r", "--yes"},
			stages: []stage{inScripts, inAudit}, survives: []stage{inAudit}},
		{name: "denials", args: []string{"denials"}, stages: []stage{inDenials, inTimes}},
		{name: "handover", args: []string{"handover"}, stages: []stage{inScripts, inJournal, inDenials}, codes: []int{exitPartly},
			survives: []stage{inScripts, inJournal, inDenials}},
		{name: "loadtest", args: []string{"loadtest", "--limit", "10/1s", "--workers", "1", "--requests", "3", "--duration", "1s"},
			stages: []stage{inScripts, inInfos}, codes: []int{exitPartly}, survives: []stage{inInfos}, late: "no request was answered"},
		{name: "doctor", args: []string{"doctor", "--scan-limit", "0"}, // or it ends a scan by its own bound
			stages: []stage{inScans, inReads, inInfos, inSizes, inTimes}, codes: []int{exitNo, exitPartly}, itself: true},
		{name: "dashboard", args: []string{"dashboard", "--once", "--refresh", "100ms"},
			stages: []stage{inScans, inReads, inScripts, inInfos}, survives: []stage{inInfos}, itself: true},
		{name: "Tab", args: []string{"__complete", "inspect", ""}, stages: []stage{inScans, inReads}, codes: []int{exitYes}},
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
	fillHostile(t, w, url)
	w.run(t, exitYes, "block", "user:8", "--for", "1d", "--reason", "none", "--yes", "--store", url, "--timeout", patience.String())
	return dir, sound
}

// fillHostile makes keys of each kind, a log among them that is too large for one read.
func fillHostile(t *testing.T, w *world, url string) {
	t.Helper()
	w.run(t, exitYes, "consume", "user:1", "--limit", "10/1h", "--limit", "fixed-window:10/1d", "--store", url, "--timeout",
		patience.String())
	for range 60 {
		w.run(t, exitYes, "consume", "-q", "user:2", "--limit", "sliding-log:1000/1h", "--store", url, "--timeout", patience.String())
	}
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
	"silent": "silence", "too large": "text that comes", "malformed": "HTTP", "cut": "end in the middle", "slow": "dribbled list",
}

// hostileBehaviours are one of each class by its name, and all that RESP allows and that are small, and of SCAN.
func hostileBehaviours(t *testing.T) (ofClass map[string]hostile.Behaviour, wrong, scans []hostile.Behaviour) {
	t.Helper()
	ofClass = map[string]hostile.Behaviour{}
	for _, b := range hostile.Behaviours() {
		for class, name := range classes {
			if b.Name == name {
				ofClass[class] = b
			}
		}
		switch {
		case strings.HasPrefix(b.Name, "scan "):
			scans = append(scans, b)
		case b.Sound && !strings.HasSuffix(b.Name, "of as much as goes"):
			wrong = append(wrong, b)
		}
	}
	if len(ofClass) != len(classes) || len(wrong) < 30 || len(scans) < 5 {
		t.Fatalf("%d classes, %d wrong answers and %d scans", len(ofClass), len(wrong), len(scans))
	}
	return ofClass, wrong, scans
}

// Whatever a server answers, a command ends soon, with one line. At each stage it meets each class, and an
// answer of another kind than it asks for: all of those where it reads the answers itself.
func TestCommandsOutlastHostileServers(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	t.Parallel()
	dir, sound := hostileDir(t)
	ofClass, wrong, scans := hostileBehaviours(t)
	all := newSideBySide(4)
	next := 0
	for _, c := range conversations(dir) {
		stages := append([]stage{atOnce}, c.stages...)
		meets := func(stage stage, b hostile.Behaviour) { all.do(func() { c.meets(t, sound, "redis://%s", stage, b) }) }
		for _, stage := range stages {
			for _, b := range ofClass {
				meets(stage, b)
			}
			if slices.Equal(stage, inScans) {
				meets(stage, scans[next%len(scans)])
			}
			for i := range wrong {
				if i == next%len(wrong) || c.itself {
					meets(stage, wrong[i])
				}
			}
			next++
		}
	}
	all.wait()
}

// untilMet calls try with a server that is hostile, until it was: where a machine is busy a
// sound answer that comes before can be too late. So each try has more time than the last. A try
// returns nothing where it has judged, or else why it has not.
func untilMet(t *testing.T, sound, what string, b hostile.Behaviour, to stage,
	try func(server *hostile.Server, timeout time.Duration) (unjudged string)) {
	t.Helper()
	unjudged := ""
	timeout := hostileTimeout
	if !b.Late {
		timeout = patience // which it takes only if something is wrong
	}
	for ; timeout < hostilePatience/2; timeout *= 4 {
		server := hostile.Start(t, sound, b, to...)
		unjudged = try(server, timeout)
		server.Stop()
		switch {
		case t.Failed(), server.Met() > 0 && unjudged == "":
			return
		case server.Met() == 0:
			unjudged = "it never came to that"
		}
	}
	t.Errorf("%s %q, %s: %s", what, to, b.Name, unjudged)
}

// meets runs the command on a server, and judges how it ends. The URL is of the store that
// %s is.
func (c *conversation) meets(t *testing.T, sound, url string, stage stage, b hostile.Behaviour) {
	t.Helper()
	untilMet(t, sound, c.name, b, stage, func(server *hostile.Server, timeout time.Duration) (unjudged string) {
		w := newWorld(t)
		w.Sleep, w.Now, w.TabTime = sys.Sleep, time.Now, timeout
		ended := make(chan int, 1)
		go func() { ended <- Run(t.Context(), c.to(fmt.Sprintf(url, server.Addr), timeout), w.Env) }()
		select {
		case code := <-ended:
			if c.late != "" && !b.Spoils && code == exitNo && strings.Contains(w.out.String(), c.late) && c.canSurvive(stage) {
				return fmt.Sprintf("with %s for each answer it says that %s", timeout, c.late)
			}
			problem := c.judge(stage, b, code, w.err.String())
			if problem == "" && code != exitYes && (b.Name == classes["too large"] || b.Name == classes["malformed"]) &&
				!strings.Contains(w.out.String()+w.err.String(), "is not one that Redis gives") {
				problem = "it does not say that this is no answer"
			}
			if problem != "" {
				t.Errorf("%s %q, %s: %s; exit code %d\n%s%s", c.name, stage, b.Name, problem, code, firstOf(&w.out), firstOf(&w.err))
			}
		case <-time.After(hostilePatience):
			t.Errorf("%s %q, %s: it goes on after %s", c.name, stage, b.Name, hostilePatience)
		}
		return ""
	})
}

// canSurvive reports whether it can go on after a hostile answer there.
func (c *conversation) canSurvive(at stage) bool {
	return slices.ContainsFunc(c.survives, func(survived stage) bool { return slices.Equal(survived, at) })
}

// to returns the words of the command line for a store.
func (c *conversation) to(url string, timeout time.Duration) []string {
	flags := []string{"--store", url, "--timeout", timeout.String()}
	if c.args[0] == "__complete" { // which takes flags before the word that is begun
		return slices.Concat(c.args[:2], flags, c.args[2:])
	}
	if at := slices.Index(c.args, "--"); at >= 0 { // behind which is a command of the caller
		return slices.Insert(slices.Clone(c.args), at, flags...)
	}
	return append(slices.Clone(c.args), flags...)
}

func firstOf(text *bytes.Buffer) string { return fmt.Sprintf("%.1000s", text.String()) }

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
	case strings.Contains(stderr, "panic") || strings.Contains(stderr, "goroutine ") || strings.Contains(stderr, "internal error"):
		return "it panicked"
	case code == exitUnreachable || code == exitRefused:
		// What changes something first says what is about to happen, or that the audit log in the store does not say it.
		lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
		speaks := slices.Contains([]string{"reset", "undo", "override", "block", "exempt", "unblock"}, c.args[0]) ||
			c.args[0] == "inspect" && slices.Equal(stage, inReads) // which are of overrides, and of limits
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, "limitctl: ") || len(lines) > 1 && !speaks {
			return "it did not say so on one line"
		}
	}
	return ""
}
