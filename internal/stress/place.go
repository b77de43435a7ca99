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

// stranger is the id of a user that does not exist on usual systems.
const stranger = 61_234

// insideVariable says that the program has its own mounts.
const insideVariable = "LIMITCTL_STRESS_INSIDE"

// A place is the environment that the tests see.
type place struct {
	dir      string // for output, removed at the end
	ownMount bool   // the mounts are private to this process
	goroot   string
	user     int      // 0: the caller
	env      []string // additional variables of that user
}

// enterOwnMounts runs the program again with private mounts, so that it can change paths for its tests alone. It
// reports whether this is such a run; only root may do it.
func enterOwnMounts() (bool, error) {
	inside := os.Getenv(insideVariable) != ""
	if inside || os.Getuid() != 0 {
		return inside, nil
	}
	self, err := os.Executable()
	if err != nil {
		return false, err
	}
	runtime.LockOSThread() // the mounts belong to the thread
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

// settle examines the place, and prepares it for a stranger if that is allowed.
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
	p.env = append(p.env, "GODEBUG=goindex=0") // otherwise go has to write into the caller's cache
	if err := os.Chmod(p.dir, 0o711); err != nil {
		return err
	}
	for variable, name := range map[string]string{"HOME": "home", "TMPDIR": "t"} {
		folder := filepath.Join(p.dir, name) // short, because of the paths of sockets
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
	return os.Chdir(checkout) // into the new mount
}

// open gives all users access to some folders, which are often in a closed home: it mounts an empty folder over the
// home, and the folders into that.
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

// closedAbove returns the first folder above one that others cannot enter, or "".
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

// mountTree mounts a tree of unix.OpenTree on a path, or on a link itself.
func mountTree(tree int, path string) error {
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// tryUser builds the program, to find out whether the user of the tests can. If not, the caller runs the tests.
func (p *place) tryUser(env []string) error {
	if out, err := p.build(0, env); err != nil {
		return fmt.Errorf("building limitctl: %w\n%s", err, out)
	}
	if p.user == 0 {
		return nil
	}
	// A user that cannot write to the caller's cache finds the results in it now.
	if out, err := p.build(p.user, slices.Concat(p.env, env)); err != nil {
		fmt.Printf("as root, since another user cannot build limitctl here: %v\n%s… ", err, out)
		p.user, p.env = 0, nil // the same rights as this process
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

// environment returns env with more, without variables about the caller and its folders.
func environment(env []string, more ...[]string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "XDG_") || strings.HasPrefix(name, "LIMITCTL_") ||
			slices.Contains([]string{"TZ", "LANG", "LANGUAGE", "USER", "LOGNAME"}, name)
	})
	return slices.Concat(append([][]string{env}, more...)...)
}

// attributesOf returns the attributes of a process of a user, 0 being the caller, that ends with its parent.
func attributesOf(user int) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if user != 0 {
		a.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(user)}
	}
	return a
}

// inZone puts the place into a zone, and returns the variables for it. Without private mounts, programs that are
// started without TZ see the zone of the machine.
func (p *place) inZone(zone string) ([]string, error) {
	const local = "/etc/localtime"
	file := filepath.Join("/usr/share/zoneinfo", zone)
	if _, err := os.Stat(file); err != nil || !p.ownMount {
		return []string{"TZ=" + zone}, nil
	}
	if _, err := os.Lstat(local); err != nil {
		return []string{"TZ=" + zone}, nil
	}
	// The path is often a link to the file of another zone, which must not change: so mount on the link itself.
	tree, err := unix.OpenTree(unix.AT_FDCWD, file, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	defer unix.Close(tree)
	return nil, mountTree(tree, local)
}
