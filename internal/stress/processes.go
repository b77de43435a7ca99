//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// adopt makes this process the parent of orphans of its children, and lets it end with its own parent.
func adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0)
}

// A process is a descendant of this one.
type process struct {
	id   int
	name string
}

// below returns the descendants of this process. It also waits for those that have ended, so nobody else may wait
// for a child.
func below() (all []process, err error) {
	for {
		id, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err == nil && id == 0 || err == unix.ECHILD {
			break
		}
		if err != nil && err != unix.EINTR {
			return nil, err
		}
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	children := map[int][]process{}
	for _, entry := range entries {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// "ID (NAME) STATE PARENT …", where a name can contain anything.
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", id))
		_, rest, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		if fields[0] != "Z" || parent == os.Getpid() { // a child that has just ended is still there until the next call
			words, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id))
			children[parent] = append(children[parent], process{id, strings.TrimSpace(strings.ReplaceAll(string(words), "\x00", " "))})
		}
	}
	all = children[os.Getpid()]
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i].id]...)
	}
	return all, nil
}

// leftBehind returns the descendants that still run after some seconds, and ends them.
func leftBehind() (left []process, err error) {
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left, err = below()
		if err != nil || len(left) == 0 {
			return nil, err
		}
		if time.Now().After(deadline) {
			return left, endAll()
		}
	}
}

// endAll ends all descendants of this process.
func endAll() error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		left, err := below()
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %d does not end: %s", left[0].id, left[0].name)
		}
		for _, p := range left {
			unix.Kill(p.id, unix.SIGKILL) // an error means that it has already ended
		}
	}
}
