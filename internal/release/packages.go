package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A nfpmContent is a file or a folder of a package.
type nfpmContent struct {
	Source string   `json:"src,omitempty"`
	Path   string   `json:"dst"`
	Type   string   `json:"type,omitempty"`
	Info   fileInfo `json:"file_info"`
}

type fileInfo struct {
	Mode int64  `json:"mode"`
	Time string `json:"mtime"`
}

// packages writes the deb, rpm and apk of a target. It has nfpm make them.
func (r *release) packages(t target, program string) error {
	folder, err := os.MkdirTemp("", "limitctl-package")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	when := r.date.Format(time.RFC3339)
	contents := []nfpmContent{{Path: "/etc/limitctl", Type: "dir", Info: fileInfo{0o755, when}}}
	add := func(c nfpmContent, name string, text []byte) error {
		if c.Source == "" {
			c.Source = filepath.Join(folder, strings.ReplaceAll(name, "/", "_"))
			if err := os.WriteFile(c.Source, text, 0o644); err != nil {
				return err
			}
		}
		c.Info.Time = when
		contents = append(contents, c)
		return nil
	}
	err = add(nfpmContent{Source: program, Path: "/usr/bin/limitctl", Info: fileInfo{Mode: 0o755}}, "", nil)
	for name, place := range places() {
		place.Info.Mode = 0o644
		if err == nil {
			err = add(place, name, r.shared[name])
		}
	}
	for name, text := range r.shared {
		page, isMan := strings.CutPrefix(name, "man/")
		switch {
		case err != nil:
		case isMan:
			err = add(nfpmContent{Path: "/usr/share/man/man1/" + page + ".gz", Info: fileInfo{Mode: 0o644}}, name, compressed(text))
		case strings.HasPrefix(name, "docs/"):
			err = add(nfpmContent{Path: "/usr/share/doc/limitctl/" + name, Info: fileInfo{Mode: 0o644}}, name, text)
		}
	}
	if err != nil {
		return err
	}
	arch := t.arch
	if t.arm != "" {
		arch += t.arm
	}
	config, err := json.Marshal(map[string]any{ // JSON is YAML
		"name": "limitctl", "arch": arch, "platform": "linux", "version": "v" + r.version, "section": "admin", "priority": "optional",
		"maintainer": "The authors of limitctl <limitctl@users.noreply.github.com>", "homepage": home, "license": "MIT", "mtime": when,
		"description": "Operate and test rate limits\nA command line and a server for rate limits in Redis, in a file or in memory.",
		"rpm":         map[string]any{"buildhost": "localhost", "summary": "Operate and test rate limits"}, "contents": contents,
	})
	if err != nil {
		return err
	}
	file := filepath.Join(folder, "nfpm.yaml")
	if err := os.WriteFile(file, config, 0o644); err != nil {
		return err
	}
	for _, kind := range []string{"deb", "rpm", "apk"} {
		to := filepath.Join(r.folder, "limitctl_"+r.version+"_"+t.name()+"."+kind)
		nfpm := exec.Command("go", "run", r.nfpm, "package", "--config", file, "--packager", kind, "--target", to)
		nfpm.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.date.Unix()))
		if output, err := nfpm.CombinedOutput(); err != nil {
			return fmt.Errorf("nfpm, %s: %w\n%s", kind, err, output)
		}
	}
	return nil
}

// places are where packages have the files that the archives have, too.
func places() map[string]nfpmContent {
	return map[string]nfpmContent{
		"LICENSE":                   {Path: "/usr/share/doc/limitctl/copyright"},
		"NOTICES":                   {Path: "/usr/share/doc/limitctl/NOTICES"},
		"CHANGELOG.md":              {Path: "/usr/share/doc/limitctl/CHANGELOG.md"},
		"README.md":                 {Path: "/usr/share/doc/limitctl/README.md"},
		"INSTALL.md":                {Path: "/usr/share/doc/limitctl/INSTALL.md"},
		"limitctl.service":          {Path: "/usr/lib/systemd/system/limitctl.service"},
		"limitctl.yaml":             {Path: "/etc/limitctl/limitctl.yaml", Type: "config|noreplace"},
		"completions/limitctl.bash": {Path: "/usr/share/bash-completion/completions/limitctl"},
		"completions/limitctl.fish": {Path: "/usr/share/fish/vendor_completions.d/limitctl.fish"},
		"completions/limitctl.zsh":  {Path: "/usr/share/zsh/site-functions/_limitctl"},
	}
}

// compressed is a page as man reads it.
func compressed(text []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	w.Write(text)
	w.Close() // a buffer takes everything
	return b.Bytes()
}
