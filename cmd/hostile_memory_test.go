package cmd

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/hostile"
)

// peakFile is the variable that names the file for what a process took of memory. What
// the operating system tells its parent counts the parent's, too.
const peakFile = "LIMITCTL_TEST_PEAK"

// measured is limitctl in a process of its own that tells what it took.
func measured() {
	code := Main("v0.0.0-test")
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		err = os.WriteFile(os.Getenv(peakFile), status, 0o600)
	}
	if err != nil {
		panic(err)
	}
	os.Exit(code)
}

// peak runs limitctl and returns the most memory it had, in MB.
func peak(t *testing.T, dir, name string, args ...string) (megabytes int) {
	t.Helper()
	file := filepath.Join(dir, name)
	command := exec.Command("measured", args...)
	command.Env = append(os.Environ(), peakFile+"="+file, "XDG_STATE_HOME="+dir, "XDG_CONFIG_HOME="+dir, "HOME="+dir)
	ended := time.AfterFunc(hostilePatience, func() { command.Process.Kill() })
	output, err := command.CombinedOutput()
	ended.Stop()
	status, readErr := os.ReadFile(file)
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if readErr != nil || found == nil {
		t.Errorf("limitctl %q ended without saying what it took: %v\n%.2000s", args, err, output)
		return 0
	}
	kilobytes, _ := strconv.Atoi(string(found[1]))
	return kilobytes >> 10
}

// What a hostile server can make a command hold. It is on top of what the command
// takes in any case.
const mostMegabytes = 64

// hungry are the names of the behaviours that are about memory.
var hungry = []string{
	"text without bound", "text a little too long", "text that comes", "list without bound", "list that comes", "list of texts that comes",
	"map without bound", "map of too many", "set without bound", "push without bound", "attribute without bound", "line without an end",
	"big number without an end", "pushes without an end", "large pushes without an end", "attributes without an end", "lists in lists",
	"maps in maps", "list of as much as goes", "text of as much as goes",
	"map of as much as goes", "lists of as much as goes", "keys of as much as goes",
}

func TestNoHostileServerMakesACommandHoldMuch(t *testing.T) {
	t.Parallel()
	dir, sound := hostileDir(t)
	idle := peak(t, dir, "idle", "version")
	var behaviours []hostile.Behaviour
	for _, b := range hostile.Behaviours() {
		if slices.Contains(hungry, b.Name) {
			behaviours = append(behaviours, b)
		}
	}
	if len(behaviours) != len(hungry) {
		t.Fatalf("%d behaviours of %d are known", len(behaviours), len(hungry))
	}
	all := newSideBySide(4)
	for n, c := range conversations(dir) {
		if slices.Contains(c.codes, exitInterrupted) { // it goes on until interrupted
			continue
		}
		// The last is where most of what they ask for is.
		stages := append([]stage{atOnce}, c.stages...)
		for i, stage := range slices.Compact([]int{min(1, len(stages)-1), min(2, len(stages)-1)}) {
			for _, b := range behaviours {
				all.do(func() {
					name := strings.Join([]string{strconv.Itoa(n), strconv.Itoa(i), b.Name}, "-")
					untilMet(t, sound, c.name, b, stages[stage], func(server *hostile.Server, timeout time.Duration) string {
						if took := peak(t, dir, name, c.to("redis://"+server.Addr, 2*timeout)...) - idle; took > mostMegabytes {
							t.Errorf("%s %q, %s: it took %d MB more than nothing does", c.name, stages[stage], b.Name, took)
						}
						return ""
					})
				})
			}
		}
	}
	all.wait()
}
