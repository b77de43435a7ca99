package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/hostile"
	"github.com/limitctl/limitctl/internal/tier"
)

// heldFile is the variable that names the file for what a process held of memory.
const heldFile = "LIMITCTL_TEST_HELD"

// measured is limitctl in a process of its own that tells what it held.
func measured() {
	env, code := patientEnv(), 0
	held := hostile.MostHeld(func() { code = mainIn(env) })
	if err := os.WriteFile(os.Getenv(heldFile), strconv.AppendUint(nil, held, 10), 0o600); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// holds runs limitctl and returns the most memory that it had in use, in MB.
func holds(t *testing.T, dir string, args ...string) (megabytes uint64) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "held")
	command := exec.Command("measured", args...)
	command.Env = append(os.Environ(), heldFile+"="+file, "XDG_STATE_HOME="+dir, "XDG_CONFIG_HOME="+dir, "HOME="+dir,
		"GOGC=10") // or a command that scans sets it
	ended := time.AfterFunc(hostilePatience, func() { command.Process.Kill() })
	output, err := command.CombinedOutput()
	ended.Stop()
	text, readErr := os.ReadFile(file)
	bytes, numberErr := strconv.ParseUint(string(text), 10, 64)
	if readErr != nil || numberErr != nil {
		t.Errorf("limitctl %q ended without saying what it held: %v\n%.2000s", args, err, output)
	}
	return bytes >> 20
}

// mostMegabytes is what a hostile server can make a command hold.
const mostMegabytes = 64

// largest are the largest answers that are one, by the commands that have such an answer.
var largest = map[string]string{
	"SCAN": "keys of as much as goes", "GETRANGE": "text of as much as goes", "INFO": "text of as much as goes",
	"EVALSHA": "list of as much as goes",
}

// Every command has the bounds of what it reads, which redisserver and redisstore prove for each hostile answer. What
// asks servers by itself also meets the largest answers that are in bounds.
func TestNoHostileServerMakesACommandHoldMuch(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	t.Parallel()
	dir, sound := hostileDir(t)
	named := map[string]hostile.Behaviour{}
	for _, b := range hostile.Behaviours() {
		named[b.Name] = b
	}
	all := newSideBySide(2)
	for _, c := range conversations(dir) {
		meets := func(stage stage, name string) {
			all.do(func() {
				b, known := named[name]
				if !known {
					t.Errorf("no behaviour is called %q", name)
					return
				}
				untilMet(t, sound, c.name, b, stage, func(server *hostile.Server, timeout time.Duration) string {
					if held := holds(t, dir, c.to("redis://"+server.Addr, timeout)...); held > mostMegabytes {
						t.Errorf("%s %q, %s: it held %d MB", c.name, stage, b.Name, held)
					}
					return ""
				})
			})
		}
		meets(c.stages[len(c.stages)-1], classes["too large"]) // where most of what it asks for is
		for _, stage := range c.stages {
			if name, is := largest[stage[0]]; is && c.itself {
				meets(stage, name)
			}
		}
	}
	all.wait()
}
