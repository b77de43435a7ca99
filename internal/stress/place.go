//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// stranger is a user who has no name on any usual system.
const stranger = 61_234

// insideVariable tells the program that it runs in mounts of its own.
const insideVariable = "LIMITCTL_STRESS_INSIDE"

// A place is the machine that tests believe to be on.
type place struct {
	dir      string // for what is written, removed at the end
	ownMount bool   // mounts are this process's own
	goroot   string
	user     int      // 0: the caller
	env      []string // what that user has besides
}

// enterOwnMounts runs the program again with mounts of its own, so that it can change what is
// at a path for its tests alone. It returns whether that is so; only root may do it.
func enterOwnMounts() (bool, error) {
	inside := os.Getenv(insideVariable) != ""
	if inside || os.Getuid() != 0 {
		return inside, nil
	}
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	runtime.LockOSThread() // it is the thread that has mounts
	if err := unix.Unshare(unix.CLONE_NEWNS); errors.Is(err, unix.EPERM) {
		return false, nil // as in many containers
	} else if err != nil {
		return false, err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return false, err
	}
	return false, unix.Exec(self, os.Args, append(os.Environ(), insideVariable+"=1"))
}

// settle finds out about the place, and lets a stranger live there if it may.
func (p *place) settle() error {
	output, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	words := strings.Split(strings.TrimSpace(string(output)), "\n")
	p.goroot, p.env = words[0], []string{"GOMODCACHE=" + words[1], "GOCACHE=" + words[2]}
	if os.Getuid() != 0 {
		return nil
	}
	p.user = stranger
	p.env = append(p.env, "GODEBUG=goindex=0") // else go needs to write into the caller's cache
	if err := os.Chmod(p.dir, 0o711); err != nil {
		return err
	}
	for variable, name := range map[string]string{"HOME": "home", "TMPDIR": "t"} {
		folder := filepath.Join(p.dir, name) // short, since the paths of sockets have to be
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		if err := os.Chown(folder, stranger, stranger); err != nil {
			return err
		}
		p.env = append(p.env, variable+"="+folder)
	}
	checkout, err := os.Getwd()
	if err != nil || !p.ownMount {
		return err
	}
	if err := open(append(words, p.dir, checkout)); err != nil {
		return err
	}
	return os.Chdir(checkout) // what is mounted there now
}

// open lets all users reach some folders, which are often in a home that is closed to others:
// in the place of the home it mounts an empty folder, and in that the folders.
func open(folders []string) error {
	trees := map[string]int{}
	homes := map[string]bool{}
	for _, folder := range folders {
		home, err := closedAbove(folder)
		if err != nil {
			return err
		}
		if home == "" {
			continue
		}
		tree, err := unix.OpenTree(unix.AT_FDCWD, folder, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
		defer unix.Close(tree)
		trees[folder], homes[home] = tree, true
	}
	for home := range homes {
		if err := unix.Mount("none", home, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("%s: %w", home, err)
		}
	}
	for folder, tree := range trees {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := mountTree(tree, folder); err != nil {
			return err
		}
	}
	return nil
}

// closedAbove returns the first folder on the way to one that others cannot pass, or "".
func closedAbove(folder string) (string, error) {
	above := filepath.Dir(folder)
	if above == folder {
		return "", nil
	}
	if closed, err := closedAbove(above); closed != "" || err != nil {
		return closed, err
	}
	info, err := os.Stat(above)
	if err != nil || info.Mode()&0o001 != 0 {
		return "", err
	}
	return above, nil
}

// mountTree puts what a path of unix.OpenTree has onto another path, and onto a link itself.
func mountTree(tree int, path string) error {
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// tryUser builds the program, which shows whether the user of the tests can. One who cannot is
// replaced by the caller.
func (p *place) tryUser(env []string) error {
	if out, err := p.build(0, env); err != nil {
		return fmt.Errorf("building limitctl: %w\n%s", err, out)
	}
	if p.user == 0 {
		return nil
	}
	// Who cannot write the caller's cache finds in it now what he needs.
	if out, err := p.build(p.user, slices.Concat(p.env, env)); err != nil {
		fmt.Printf("as root, since another user cannot build limitctl here: %v\n%s… ", err, out)
		p.user, p.env = 0, nil // who has what this process has
	}
	return nil
}

func (p *place) build(user int, env []string) (output []byte, err error) {
	build := exec.Command("go", "build", "-o", filepath.Join(p.dir, "t", "limitctl"), ".")
	build.Env = environment(os.Environ(), env)
	build.SysProcAttr = attributesOf(user)
	defer os.Remove(build.Args[3])
	return build.CombinedOutput()
}

// environment is env with more instead of what says where and who the caller is.
func environment(env []string, more ...[]string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "LIMITCTL_") ||
			slices.Contains([]string{"TZ", "LANG", "LANGUAGE", "USER", "LOGNAME"}, name)
	})
	return slices.Concat(append([][]string{env}, more...)...)
}

// attributesOf are those of a process of a user, 0 being the caller, that ends with its parent.
func attributesOf(user int) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if user != 0 {
		a.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}
	}
	return a
}

// inZone puts the place into a zone, and returns the variables that this takes. Where mounts
// are not our own, programs that are started without TZ see the zone of the machine.
func (p *place) inZone(zone string) ([]string, error) {
	const local = "/etc/localtime"
	file := filepath.Join("/usr/share/zoneinfo", zone)
	if _, err := os.Stat(file); err != nil || !p.ownMount {
		return []string{"TZ=" + zone}, nil
	}
	if _, err := os.Lstat(local); err != nil {
		return []string{"TZ=" + zone}, nil
	}
	// The path is often a link to the file of another zone, which has to stay as it is: so the
	// mount is on the link itself.
	tree, err := unix.OpenTree(unix.AT_FDCWD, file, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	defer unix.Close(tree)
	return nil, mountTree(tree, local)
}
