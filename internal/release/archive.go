package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

// mode is the mode of a file in an archive: programs can be executed.
func mode(name string) int64 {
	if base := filepath.Base(name); base == "limitctl" || base == "limitctl.exe" {
		return 0o755
	}
	return 0o644
}

// tarball packs files below a folder. It depends on nothing but its arguments.
func tarball(folder string, files map[string][]byte, date time.Time) ([]byte, error) {
	var packed bytes.Buffer
	compressed, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{Name: folder + "/" + name, Mode: mode(name), Size: int64(len(files[name])), ModTime: date,
			Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(files[name]); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	err = compressed.Close()
	return packed.Bytes(), err
}

// zipped is tarball for Windows.
func zipped(folder string, files map[string][]byte, date time.Time) ([]byte, error) {
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &zip.FileHeader{Name: folder + "/" + name, Method: zip.Deflate, Modified: date.UTC()}
		header.SetMode(os.FileMode(mode(name)))
		w, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return packed.Bytes(), err
}

// site packs the documentation as a site, for people without a network.
func (r *release) site() error {
	folder, err := os.MkdirTemp("", "limitctl-site")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	writer := exec.Command("go", "run", ".", "-to", filepath.Join(folder, "site"))
	writer.Dir = "docs/site"
	if output, err := writer.CombinedOutput(); err != nil {
		return fmt.Errorf("docs/site: %w\n%s", err, output)
	}
	files := map[string][]byte{}
	site := os.DirFS(filepath.Join(folder, "site"))
	err = fs.WalkDir(site, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files[name], err = fs.ReadFile(site, name)
		}
		return err
	})
	if err != nil {
		return err
	}
	base := "limitctl_" + r.version + "_site"
	packed, err := tarball(base, files, r.date)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.folder, base+".tar.gz"), packed, 0o644)
}

// imageRecipe makes a recipe that compiles into one in which the program is found where the compiler would have put it.
func imageRecipe(compiling []byte) ([]byte, error) {
	_, rest, has := bytes.Cut(compiling, []byte("\nFROM golang:"))
	version, rest, _ := bytes.Cut(rest, []byte(" AS build\n"))
	_, image, hasToo := bytes.Cut(rest, []byte("FROM scratch\n"))
	if !has || !hasToo {
		return nil, errors.New("docs/deploy/Containerfile has no stages FROM golang:VERSION AS build and FROM scratch")
	}
	return fmt.Appendf(nil, "# docker build -f Containerfile -t limitctl .\nFROM golang:%s AS build\nCOPY limitctl /out/limitctl\n"+
		"RUN mkdir -p /out/state\n\nFROM scratch\n%s", version, image), nil
}

// imageContext writes what an image is built from: the program, and how.
func (r *release) imageContext(base string, program []byte) error {
	recipe, err := os.ReadFile("docs/deploy/Containerfile")
	if err != nil {
		return err
	}
	if recipe, err = imageRecipe(recipe); err != nil {
		return err
	}
	files := map[string][]byte{"limitctl": program, "Containerfile": recipe, "LICENSE": r.shared["LICENSE"], "NOTICES": r.shared["NOTICES"]}
	packed, err := tarball(base+"_image", files, r.date)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.folder, base+"_image.tar.gz"), packed, 0o644)
}
