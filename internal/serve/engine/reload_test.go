package engine

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/poll"
	"github.com/limitctl/limitctl/internal/tier"
)

// rig is a Reloader of a real file, in virtual time.
type rig struct {
	*Reloader
	t       *testing.T
	path    string
	log     bytes.Buffer
	applied []string // the limits that were put in force
	told    []string
}

func withLimit(n int) string {
	return fmt.Sprintf("policies:\n  login:\n    limits: [{name: ip, by: [ip], limit: %d/1m}]\n", n)
}

func limitOf(c *config.Config) string {
	if len(c.Policies) == 0 {
		return "none"
	}
	return fmt.Sprint(c.Policies[0].Limits[0].Limit.Count)
}

func newRig(t *testing.T, path, text string) *rig {
	r := &rig{t: t, path: path}
	if text != "" {
		r.write(text)
	}
	environment := config.Environment{Explicit: path, Getenv: func(string) string { return "" }, ReadFile: os.ReadFile}
	c, err := config.Load(environment)
	tier.Must(t, err)
	r.Reloader = &Reloader{
		Environment: environment, Config: c,
		OnReload: func(hash string, err error) { r.told = append(r.told, fmt.Sprint(err == nil)) },
		Describe: func(err error) string { return err.Error() },
		Log:      slog.New(slog.NewTextHandler(&r.log, nil)),
		Now:      time.Now,
	}
	r.BeginFiles()
	r.Apply = func(c *config.Config) { r.applied = append(r.applied, limitOf(c)) }
	r.Refresh(t.Context(), false)
	return r
}

func (r *rig) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// rename replaces the file by renaming another, as editors do.
func (r *rig) rename(text string) {
	r.t.Helper()
	next := r.path + ".next"
	if err := errors.Join(os.WriteFile(next, []byte(text), 0o600), os.Rename(next, r.path)); err != nil {
		r.t.Fatal(err)
	}
}

// wants calls Refresh once, and checks which limits were put in force so far.
func (r *rig) wants(what string, applied ...string) {
	r.t.Helper()
	r.Refresh(r.t.Context(), false)
	if fmt.Sprint(r.applied) != fmt.Sprint(applied) {
		r.t.Errorf("%s: %v were put in force, want %v\n%s", what, r.applied, applied, &r.log)
	}
}

// A file with mistakes keeps the old configuration, and is reported once: in the log, in the state, and to metrics.
// The text must not contain secrets of the file.
func TestABrokenFileKeepsTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, filepath.Join(t.TempDir(), "limitctl.yaml"), withLimit(1))
		r.told = nil
		r.write("contexts:\n  prod: {store: \"redis://:hunter2secret@host\", prefix: \"a b\nhunter2secret\"}\n" +
			withLimit(2) + "x: y\n")
		since := time.Now().Add(poll.Settle)
		r.wants("broken")
		time.Sleep(time.Hour)
		r.wants("still broken")
		state := r.State()
		if state.StaleSince == nil || !state.StaleSince.Equal(since) ||
			!strings.Contains(state.Error, "limitctl.yaml:") {
			t.Errorf("the state is %+v", state)
		}
		if n := strings.Count(r.log.String(), "stays in force"); n != 1 || fmt.Sprint(r.told) != "[false]" {
			t.Errorf("it was told %d times in the log, and %v to metrics:\n%s", n, r.told, &r.log)
		}
		r.write("policies: [")
		r.wants("broken in another way")
		if later := r.State(); later.StaleSince == nil || !later.StaleSince.Equal(since) ||
			later.Error == state.Error ||
			!later.LoadedAt.Equal(state.LoadedAt) || later.Hash != state.Hash || fmt.Sprint(r.told) != "[false false]" {
			t.Errorf("with another mistake the state is %+v, and metrics are told %v", later, r.told)
		}
		if text := r.log.String() + state.Error; strings.Contains(text, "hunter2") {
			t.Errorf("a password is in %s", text)
		}
		r.write(withLimit(1))
		r.wants("as it was")
		if state := r.State(); state.StaleSince != nil || state.Error != "" {
			t.Errorf("the state is %+v", state)
		}
		r.rename(withLimit(4))
		r.wants("better", "4")
	})
}

// A file that vanishes keeps its configuration in force, even one that is optional.
func TestAVanishedFileKeepsTheOneBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Chdir(t.TempDir())
		tier.Must(t, os.WriteFile(config.LocalFile, []byte(withLimit(1)), 0o600))
		for _, named := range []string{"", config.LocalFile} {
			r := newRig(t, named, "")
			r.path = config.LocalFile
			tier.Must(t, os.Remove(r.path))
			r.wants("vanished")
			if r.State().StaleSince == nil {
				t.Error("it is not told")
			}
			r.write(withLimit(1))
			r.wants("came back")
			if r.State().StaleSince != nil {
				t.Errorf("once it is back the state is %+v", r.State())
			}
		}
	})
}
