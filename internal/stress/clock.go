//go:build linux

package main

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// aheadMark begins the name of a folder in PATH that ends with the nanoseconds by which the clock is ahead; the
// files of clock look for it.
const aheadMark = "ahead="

//go:embed clock
var clockFiles embed.FS

// windowEnd returns the end of the current window of a length. Windows count from the epoch.
func windowEnd(now time.Time, length time.Duration) time.Time {
	seconds := int64(length / time.Second)
	return time.Unix((now.Unix()/seconds+1)*seconds, 0).UTC()
}

// nextChange returns when the clocks of a zone are next put forward, or back.
func nextChange(now time.Time, zone *time.Location, forward bool) (time.Time, error) {
	at := now.In(zone)
	for range 10 { // some years
		_, change := at.ZoneBounds()
		if change.IsZero() {
			break
		}
		_, before := at.Zone()
		at = change.In(zone)
		if _, after := at.Zone(); (after > before) == forward {
			return at.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("the clocks of %s are not changed any more", zone)
}

// A clockwork moves the clocks of programs: those of Go programs by an overlay of the standard library, and those
// of others, which are found in PATH by their names, by a library that is loaded before the C library.
type clockwork struct {
	Overlay  string // a file for go's -overlay
	Programs string // a folder for PATH
}

// newClockwork makes one in a folder.
func newClockwork(dir, goroot string) (*clockwork, error) {
	if err := os.CopyFS(dir, clockFiles); err != nil {
		return nil, err
	}
	dir = filepath.Join(dir, "clock")
	overlay, err := overlayOfTime(dir, goroot)
	if err != nil {
		return nil, err
	}
	programs := filepath.Join(dir, "programs")
	return &clockwork{Overlay: overlay, Programs: programs}, wrapPrograms(dir, programs)
}

// overlayOfTime writes an overlay in which time.Now calls moved.
func overlayOfTime(dir, goroot string) (path string, err error) {
	const reading = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	original := filepath.Join(goroot, "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	if strings.Count(string(source), reading) != 1 {
		return "", fmt.Errorf("time.Now of %s is not as this program knows it; see how it reads the clock now, and adapt overlayOfTime",
			original)
	}
	patched := filepath.Join(dir, "time.go.txt")
	text := strings.Replace(string(source), reading, reading+"\tsec, nsec = moved(sec, nsec)\n", 1)
	if err := os.WriteFile(patched, []byte(text), 0o644); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		original: patched,
		filepath.Join(filepath.Dir(original), "moved.go"): filepath.Join(dir, "moved.go.txt"),
	}})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, overlay, 0o644)
}

// wrapPrograms writes scripts that run programs with the library. Programs that wait for an instant of the wall
// clock would wait too long, so the list is chosen by hand.
func wrapPrograms(dir, programs string) error {
	library := filepath.Join(dir, "moved.so")
	if _, err := exec.LookPath("cc"); err != nil {
		return errors.New("the clock of redis-server cannot be moved without a C compiler; install one under the name cc")
	}
	if out, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", library,
		filepath.Join(dir, "moved.c")).CombinedOutput(); err != nil {
		return fmt.Errorf("cc: %w\n%s", err, out)
	}
	if err := os.Mkdir(programs, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"redis-server", "date"} {
		real, err := exec.LookPath(name)
		if err != nil {
			return err
		}
		script := fmt.Sprintf("#!/bin/sh\nLD_PRELOAD='%s' exec '%s' \"$@\"\n", library, real)
		if err := os.WriteFile(filepath.Join(programs, name), []byte(script), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// pathAhead returns PATH for a program whose clock is ahead.
func (c *clockwork) pathAhead(ahead time.Duration) (string, error) {
	name := filepath.Join(filepath.Dir(c.Programs), fmt.Sprint(aheadMark, ahead.Nanoseconds()))
	if err := os.Symlink(c.Programs, name); err != nil && !os.IsExist(err) {
		return "", err
	}
	return name + string(os.PathListSeparator) + os.Getenv("PATH"), nil
}
