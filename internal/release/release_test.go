package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd"
	"github.com/limitctl/limitctl/internal/tier"
)

var released = time.Date(2026, 11, 26, 8, 30, 0, 0, time.UTC)

// An archive depends on its content and date alone, and its program can be executed.
func TestArchivesAreReproducible(t *testing.T) {
	files := map[string][]byte{"limitctl": []byte("program"), "LICENSE": []byte("MIT"), "man/limitctl.1": []byte("page")}
	first, err := tarball("limitctl_1", files, released)
	second, _ := tarball("limitctl_1", files, released)
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("the same files give two archives, %v", err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(first))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
		if want := mode(header.Name); header.Mode != want || !header.ModTime.Equal(released) || header.Uid != 0 || header.Uname != "" {
			t.Errorf("%s has mode %o, time %s, owner %d %s", header.Name, header.Mode, header.ModTime, header.Uid, header.Uname)
		}
	}
	if got := strings.Join(names, " "); got != "limitctl_1/LICENSE limitctl_1/limitctl limitctl_1/man/limitctl.1" {
		t.Errorf("the archive has %s", got)
	}
	if mode("a/limitctl") != 0o755 || mode("limitctl.exe") != 0o755 || mode("man/limitctl.1") != 0o644 {
		t.Error("not the programs can be executed, or not only they")
	}
	zip1, err := zipped("limitctl_1", files, released)
	zip2, _ := zipped("limitctl_1", files, released)
	if err != nil || !bytes.Equal(zip1, zip2) {
		t.Errorf("the same files give two zip archives, %v", err)
	}
	r, err := zip.NewReader(bytes.NewReader(zip1), int64(len(zip1)))
	if err != nil || len(r.File) != 3 || r.File[1].Mode().Perm() != 0o755 {
		t.Errorf("the zip archive is %+v, %v", r, err)
	}
}

// The image is made with the Go of go.mod, and from the recipe that compiles.
func TestImageRecipe(t *testing.T) {
	compiling, err := os.ReadFile("../../docs/deploy/Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(module), "\ngo ")
	version, _, _ := strings.Cut(rest, "\n")
	recipe, err := imageRecipe(compiling)
	for _, want := range []string{
		"FROM golang:" + version + " AS build\nCOPY limitctl /out/limitctl\n", "FROM scratch\n", "\nUSER 65532:65532\n",
	} {
		if err != nil || !strings.Contains(string(recipe), want) {
			t.Errorf("the recipe has no %q, %v:\n%s", want, err, recipe)
		}
	}
	if strings.Contains(string(recipe), "go build") {
		t.Error("the recipe compiles")
	}
	if _, err := imageRecipe([]byte("FROM scratch\n")); err == nil {
		t.Error("a recipe without a compiler is no error")
	}
}

// The links of the pages in an archive lead into it, or to the forge.
func TestLinksOfPagesInAnArchive(t *testing.T) {
	places := map[string]string{"README.md": "README.md", "docs/install.md": "INSTALL.md", "docs/samples/a.yaml": "docs/samples/a.yaml",
		"docs/samples/README.md": "docs/samples/README.md"}
	for _, c := range []struct{ page, text, want string }{
		{"README.md", "[a](docs/install.md#linux)", "[a](INSTALL.md#linux)"},
		{"docs/install.md", "[a](../README.md)", "[a](README.md)"},
		{"docs/install.md", "[a](samples/a.yaml)", "[a](docs/samples/a.yaml)"},
		{"docs/samples/README.md", "[a](a.yaml)", "[a](a.yaml)"},
		{"docs/install.md", "[a](redis.md#tls), [b](#here), [c](https://example.com/a)",
			"[a](https://forge/blob/v1/docs/redis.md#tls), [b](#here), [c](https://example.com/a)"},
	} {
		if got := string(relink([]byte(c.text), c.page, "https://forge/blob/v1/", places)); got != c.want {
			t.Errorf("%s: %s becomes %s, want %s", c.page, c.text, got, c.want)
		}
	}
}

// A tree that differs from its commit is not released under the name of the commit.
func TestAChangedTreeIsNoRelease(t *testing.T) {
	folder := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		as := []string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false"}
		command := exec.Command("git", append(as, args...)...)
		command.Dir = folder
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, output)
		}
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "first")
	git("tag", "-m", "the first", "v1.2.3")
	t.Chdir(folder)
	r := &release{}
	if err := r.identify(); err != nil || r.version != "1.2.3" {
		t.Errorf("the version is %s, %v", r.version, err)
	}
	if err := os.WriteFile("new.go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.identify(); err != nil || r.version != "1.2.3-dirty" {
		t.Errorf("the version of a changed tree is %s, %v", r.version, err)
	}
}

// The inventory has each module that is linked in, and the notices have a licence of each.
func TestInventoryAndNotices(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &release{version: "1.2.3", date: released}
	text, err := r.inventory(program, target{"linux", "arm", "7"})
	if err != nil {
		t.Fatal(err)
	}
	var document spdxDocument
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, p := range document.Packages {
		if ids[p.ID] || !strings.HasPrefix(p.ID, "SPDXRef-") || spdxName().MatchString(p.ID) {
			t.Errorf("the ID %s is there twice, or is none", p.ID)
		}
		ids[p.ID] = true
	}
	if !ids["SPDXRef-github.com-spf13-cobra"] || !ids["SPDXRef-std"] || len(document.Relations) != len(document.Packages) ||
		document.Namespace != home+"/spdx/limitctl-1.2.3-linux_armv7" || document.Creation.Created != "2026-11-26T08:30:00Z" {
		t.Errorf("the inventory is %s", text)
	}
	licences, err := notices([]string{program})
	if err != nil || !bytes.Contains(licences, []byte("github.com/spf13/cobra@")) || !bytes.Contains(licences, []byte("Apache License")) {
		t.Errorf("the notices are %.300s, %v", licences, err)
	}
	folder := t.TempDir()
	readme := filepath.Join(folder, "README.md")
	for _, test := range []struct {
		text string
		has  bool
	}{{"# A module", false}, {"# A module\n\n## License\n\nMIT\n", true}} {
		if err := os.WriteFile(readme, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := addLicences(new(bytes.Buffer), "a module", folder); (err == nil) != test.has {
			t.Errorf("%q: %v", test.text, err)
		}
	}
}

// What limitctl links differs from system to system, and all of it has a licence to ship.
func TestTheModulesOfEverySystemHaveLicences(t *testing.T) {
	tier.Full(t, "Go builds of its own")
	for _, system := range []string{"linux", "darwin", "windows", "freebsd"} {
		const linked = "{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}}\t{{.Dir}}{{end}}{{end}}"
		list := exec.Command("go", "list", "-deps", "-f", linked, ".")
		list.Dir = filepath.Join("..", "..")
		list.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
		output, err := list.Output()
		if err != nil {
			t.Fatalf("%s: %v", system, err)
		}
		modules := slices.Compact(slices.Sorted(strings.Lines(string(output))))
		if len(modules) < 10 {
			t.Errorf("%s: only %d modules", system, len(modules))
		}
		for _, module := range modules {
			name, folder, _ := strings.Cut(strings.TrimSpace(module), "\t")
			if name == "" {
				continue
			}
			if err := addLicences(new(bytes.Buffer), name, folder); err != nil {
				t.Errorf("%s: %v", system, err)
			}
		}
	}
}

// Each command has a man page, and none of its lines is taken for a request of man.
func TestManPages(t *testing.T) {
	files := cmd.PackageFiles("1.2.3", released)
	page := string(files["man/limitctl-override-set.1"])
	for _, want := range []string{".TH LIMITCTL-OVERRIDE-SET 1 2026-11-26 \"limitctl 1.2.3\"",
		".SH SYNOPSIS", "\\-\\-reason TEXT", ".SH EXAMPLES",
		"limitctl\\-override(1)", ".SH SEE ALSO", "limitctl_1.2.3_site.tar.gz"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s:\n%s", want, page)
		}
	}
	for name := range places() {
		if strings.HasPrefix(name, "completions/") && len(files[name]) == 0 {
			t.Errorf("packages want %s", name)
		}
	}
	all := string(files["man/limitctl.1"])
	for _, want := range []string{".SH FLAGS OF EVERY COMMAND", "\\-\\-store URL", ".SH ENVIRONMENT", "LIMITCTL_STORE", ".SH EXIT STATUS"} {
		if !strings.Contains(all, want) {
			t.Errorf("the page of limitctl has no %s:\n%s", want, all)
		}
	}
	for name, page := range files {
		if strings.HasPrefix(name, "man/") && regexp.MustCompile(`docs/[a-z-]+\.md`).Match(page) {
			t.Errorf("%s names a page that is not in a package", name)
		}
		for line := range strings.Lines(string(page)) {
			request, _, _ := strings.Cut(strings.TrimSpace(line), " ")
			if strings.HasPrefix(name, "man/") && (line[0] == '.' || line[0] == '\'') &&
				!slices.Contains([]string{".TH", ".SH", ".PP", ".TP", ".B", ".nf", ".fi"}, request) {
				t.Errorf("%s has the line %s", name, line)
			}
		}
	}
}
