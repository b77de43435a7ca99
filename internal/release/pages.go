package main

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/limitctl/limitctl/internal/texts"
)

// packed are the files of docs that the pages name, and that somebody without the repository needs, in the words of git ls-files.
var packed = []string{"docs/samples", "docs/deploy", "docs/monitoring", "docs/examples/ci-gate.sh", "docs/*.schema.json",
	":!docs/deploy/*.sh", ":!docs/deploy/Containerfile", ":!docs/deploy/README.md", ":!docs/monitoring/README.md"}

// pages collects the pages that an archive has at its top, and the files that they name.
func (r *release) pages() error {
	listed, err := exec.Command("git", append([]string{"ls-files", "--"}, packed...)...).Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	places := map[string]string{"README.md": "README.md", "CHANGELOG.md": "CHANGELOG.md", "docs/install.md": "INSTALL.md"}
	for _, file := range strings.Fields(string(listed)) {
		places[file] = file
	}
	tree := r.commit
	if !strings.HasPrefix(r.version, "0.0.0-") && !strings.HasSuffix(r.version, "-dirty") {
		tree = "v" + r.version
	}
	for file, name := range places {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if path.Ext(file) == ".md" {
			text = relink(text, file, home+"/blob/"+tree+"/", places)
		}
		r.shared[name] = text
	}
	return nil
}

// link is a link of a page to another file of the repository.
var link = texts.Regexp(`\]\(([^):#]+)(#[^)]*)?\)`)

// relink leads the links of a page to where the files are in the archive, by their places in the repository, and other links
// to the forge, whose address of the repository is tree.
func relink(text []byte, page, tree string, places map[string]string) []byte {
	return link().ReplaceAllFunc(text, func(found []byte) []byte {
		m := link().FindSubmatch(found)
		target := path.Join(path.Dir(page), string(m[1]))
		way := tree + target
		if name, has := places[target]; has {
			if below, err := filepath.Rel(path.Dir(places[page]), name); err == nil {
				way = filepath.ToSlash(below)
			}
		}
		return fmt.Appendf(nil, "](%s%s)", way, m[2])
	})
}
