package backup

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// List returns possible backups, the newest first, and Find finds them by name.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	newer, older := Name(time.Unix(2000, 0), "7"), Name(time.Unix(1000, 0), "99")
	for _, name := range []string{older, newer, "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "d.jsonl"), 0o700); err != nil {
		t.Fatal(err)
	}
	folder := &Folder{Path: dir}
	listed, err := folder.List()
	if err != nil || len(listed) != 2 || listed[0].Name != newer || listed[1].Name != older || listed[0].Size != 1 {
		t.Errorf("it lists %v, %v", listed, err)
	}
	for name, want := range map[string]string{newer: newer, strings.TrimSuffix(older, ".jsonl"): older, "../" +
		newer: "",
		"": "", "notes.txt": "", "nosuch": ""} {
		path, found := folder.Find(name)
		if found != (want != "") || found && path != filepath.Join(dir, want) {
			t.Errorf("%q is found at %q (%v)", name, path, found)
		}
	}
	empty := &Folder{Path: filepath.Join(dir, "nosuch")}
	if listed, err := empty.List(); err != nil || len(listed) > 0 {
		t.Errorf("a directory that is not there has %v, %v", listed, err)
	}
}

// slowEnd is a reader with a slow second half.
type slowEnd struct {
	*bytes.Reader
	half    int
	begun   chan struct{} // the second half
	reading atomic.Bool
}

func (s *slowEnd) Read(p []byte) (int, error) {
	s.reading.Store(true)
	defer s.reading.Store(false)
	if s.half -= len(p); s.half <= 0 {
		close(s.begun)
		time.Sleep(50 * time.Millisecond) // long enough to notice a forgotten reader
		s.half = math.MaxInt
	}
	return s.Reader.Read(p)
}

// The reader has ended when Each returns, even after an error or a panic.
func TestConcurrentReadingEndsWithEach(t *testing.T) {
	t.Parallel()
	var records []admin.Record
	for i := range 50_000 {
		records = append(records, record(t, strconv.Itoa(i), 1))
	}
	file := written(t, records, nil)
	if len(file) < 3*maxHeader {
		t.Fatalf("a file of %d bytes is read in one go", len(file))
	}
	for name, failing := range map[string]func() error{"an error": func() error { return io.ErrClosedPipe },
		"a panic": func() error { panic(io.ErrClosedPipe) }} {
		in := &slowEnd{Reader: bytes.NewReader(file), half: 2 * maxHeader, begun: make(chan struct{})}
		batches := 0
		err := panics.Call(func() error {
			return new(Contents).Each(in, 100, func(Batch) error {
				batches++
				select {
				case <-in.begun:
					return failing()
				default:
					return nil
				}
			})
		})
		if in.reading.Load() || batches == 0 || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: %d batches, %v; it is still read: %v", name, batches, err, in.reading.Load())
		}
	}
}
