// Release makes what a release of limitctl consists of: archives for every system, packages for Linux, the context of an
// image, an inventory of each program (SPDX), the licences of what is linked in, and checksums. The same commit gives
// the same bytes. `make release` calls it.
//
//	release [FLAG...] GOOS/GOARCH[/GOARM]...
package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd"
)

func main() {
	r := &release{}
	flag.StringVar(&r.folder, "to", "bin/release", "write to this `FOLDER`, whose content is removed before")
	flag.StringVar(&r.nfpm, "nfpm", "", "make packages for Linux with this `MODULE@VERSION` of nfpm")
	flag.Parse()
	if err := r.run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A release is made in a folder.
type release struct {
	folder, nfpm    string
	version, commit string
	date            time.Time // of the commit, and so of all files
	shared          map[string][]byte
}

// A target is a system that a program is built for.
type target struct{ system, arch, arm string }

// name is the part of a file's name that tells the target.
func (t target) name() string {
	if t.arm != "" {
		return t.system + "_" + t.arch + "v" + t.arm
	}
	return t.system + "_" + t.arch
}

func (r *release) run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name the systems, such as linux/amd64")
	}
	if err := r.identify(); err != nil {
		return err
	}
	if err := os.RemoveAll(r.folder); err != nil {
		return err
	}
	if err := os.MkdirAll(r.folder, 0o755); err != nil {
		return err
	}
	programs := map[target]string{}
	for _, arg := range args {
		parts := append(strings.Split(arg, "/"), "", "")
		t := target{parts[0], parts[1], parts[2]}
		fmt.Println("building", t.name())
		program, err := r.build(t)
		if err != nil {
			return err
		}
		programs[t] = program
	}
	if err := r.collect(slices.Collect(maps.Values(programs))); err != nil {
		return err
	}
	for t, program := range programs {
		if err := r.pack(t, program); err != nil {
			return err
		}
	}
	if err := r.site(); err != nil {
		return err
	}
	return r.sum()
}

// identify finds out which version is released.
func (r *release) identify() error {
	output, err := exec.Command("git", "log", "-1", "--format=%H %ct").Output()
	if err != nil {
		return fmt.Errorf("git log: %w", err)
	}
	commit, seconds, _ := strings.Cut(strings.TrimSpace(string(output)), " ")
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return err
	}
	r.commit, r.date = commit, time.Unix(n, 0).UTC()
	r.version = "0.0.0-g" + commit[:12]
	if tag, err := exec.Command("git", "describe", "--tags", "--exact-match", "--match", "v*").Output(); err == nil {
		r.version = strings.TrimPrefix(strings.TrimSpace(string(tag)), "v")
	}
	changed, err := exec.Command("git", "status", "--porcelain").Output()
	if err != nil {
		return fmt.Errorf("git status: %w", err)
	}
	if first, _, is := strings.Cut(string(changed), "\n"); is {
		r.version += "-dirty" // what is built is not what the commit has
		fmt.Printf("this is no release, since the tree differs from the commit (%s): its version is %s\n", strings.TrimSpace(first),
			r.version)
	}
	return nil
}

// build builds the program for a target, beside the release.
func (r *release) build(t target) (program string, err error) {
	program = filepath.Join(filepath.Clean(r.folder)+".programs", t.name(), "limitctl")
	if t.system == "windows" {
		program += ".exe"
	}
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program, "-ldflags",
		fmt.Sprintf("-s -w -buildid= -X main.version=v%s -X main.commit=%s -X main.date=%s", r.version, r.commit,
			r.date.Format(time.RFC3339)), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+t.system, "GOARCH="+t.arch, "GOARM="+t.arm)
	build.Stderr = os.Stderr
	return program, build.Run()
}

// collect reads what all archives and packages share.
func (r *release) collect(programs []string) (err error) {
	r.shared = cmd.PackageFiles(r.version, r.date)
	if r.shared["LICENSE"], err = os.ReadFile("LICENSE"); err != nil {
		return err
	}
	if err := r.pages(); err != nil {
		return err
	}
	unit, err := os.ReadFile("docs/deploy/limitctl.service")
	if err != nil {
		return err
	}
	r.shared["limitctl.service"] = bytes.ReplaceAll(unit, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
	if r.shared["limitctl.yaml"], err = os.ReadFile("docs/deploy/limitctl.yaml"); err != nil {
		return err
	}
	r.shared["NOTICES"], err = notices(programs)
	return err
}

// pack writes the archive of a target, its inventory, and for Linux the packages and the context of an image.
func (r *release) pack(t target, program string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	base := "limitctl_" + r.version + "_" + t.name()
	files := maps.Clone(r.shared)
	files[filepath.Base(program)] = text
	archive, ending := tarball, ".tar.gz"
	if t.system == "windows" {
		archive, ending = zipped, ".zip"
	}
	packed, err := archive(base, files, r.date)
	if err != nil {
		return err
	}
	inventory, err := r.inventory(program, t)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{base + ending: packed, base + ".spdx.json": inventory} {
		if err := os.WriteFile(filepath.Join(r.folder, name), content, 0o644); err != nil {
			return err
		}
	}
	if t.system != "linux" {
		return nil
	}
	if err := r.imageContext(base, text); err != nil || r.nfpm == "" {
		return err
	}
	return r.packages(t, program)
}

// sum writes the checksums of all files, as sha256sum does.
func (r *release) sum() error {
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(r.folder, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(text), entry.Name())
	}
	return os.WriteFile(filepath.Join(r.folder, "checksums.txt"), sums.Bytes(), 0o644)
}
