package policyfile_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter/policyfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// testdata are configurations with which the command is tested, too.
const testdata = "../../../internal/configfile/testdata/"

var update = flag.Bool("update", false, "write what is said of broken files where the command says more")

// The library and the command report the same errors, letter by letter. If the command finds mistakes in contexts,
// which the library ignores, a file .library.txt has the errors of the library; it is empty if the library accepts
// the file.
func TestErrorsAreTheCommands(t *testing.T) {
	files, err := filepath.Glob(testdata + "broken/*.yaml")
	if err != nil || len(files) < 48 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	differ := 0
	for _, path := range files {
		data, err := os.ReadFile(path)
		tier.Must(t, err)
		golden := strings.TrimSuffix(path, ".yaml") + ".library.txt"
		want, err := os.ReadFile(golden)
		if err != nil {
			want, err = os.ReadFile(strings.TrimSuffix(path, ".yaml") + ".txt")
		} else {
			differ++
		}
		tier.Must(t, err)
		got := ""
		_, err = policyfile.Parse(filepath.Base(path), data)
		if err != nil {
			got = err.Error() + "\n"
			checkMistakes(t, filepath.Base(path), err)
		}
		if got != string(want) && *update {
			err = os.WriteFile(golden, []byte(got), 0o644)
		}
		if got != string(want) {
			t.Errorf("of %s it says\n%s\nnot\n%s (%v)", path, got, want, err)
		}
	}
	if differ > 7 {
		t.Errorf("of %d files the library says something else than the command", differ)
	}
}

// checkMistakes checks that an error is mistakes, and that its text matches its parts.
func checkMistakes(t *testing.T, name string, err error) {
	t.Helper()
	var mistakes *policyfile.Mistakes
	if !errors.As(err, &mistakes) || !errors.Is(err, store.ErrInvalid) {
		t.Errorf("%s: the error is a %T", name, err)
		return
	}
	m := mistakes.List[0]
	first := fmt.Sprintf("%s:%d:%d: %s\n", m.Path, m.Line, m.Column, m.Text)
	if m.Path != name || m.Line < 1 || m.Column < 1 || !strings.HasPrefix(err.Error()+"\n", first) {
		t.Errorf("the first mistake is %+v, of\n%s", m, err)
	}
}

func TestWhatAFileSays(t *testing.T) {
	file, err := policyfile.Load(testdata + "good/everything.yaml")
	tier.Must(t, err)
	if file.Prefix != "my app" || file.Name != testdata+"good/everything.yaml" {
		t.Errorf("%q, %q", file.Prefix, file.Name)
	}
	var names []string
	for _, p := range file.Policies {
		names = append(names, p.Name)
	}
	if want := []string{"text", "hashed", "same", "merged", "lists", "quoted"}; !slices.Equal(names, want) {
		t.Errorf("the policies are %q, not %q", names, want)
	}
	merged, err := file.Policy("merged")
	if err != nil || merged.OnError != store.DenyOnError {
		t.Errorf("%+v, %v", merged, err)
	}
	if _, err := file.Policy("hashd"); !errors.Is(err, store.ErrInvalid) ||
		!strings.Contains(fmt.Sprint(err), `policy "hashd" is unknown; did you mean hashed?; ../`) {
		t.Error(err)
	}
	none, err := policyfile.Parse("none.yaml", []byte("contexts: {}"))
	if err != nil || none.Prefix != store.DefaultPrefix {
		t.Errorf("%+v, %v", none, err)
	}
	if _, err := none.Policy("x"); fmt.Sprint(err) != `policy "x" is unknown; none.yaml has no policies` {
		t.Error(err)
	}
}

// No mistake shows a password of contexts, even if an alias brings it to a place that mistakes quote.
func TestMistakesHoldNoPassword(t *testing.T) {
	files, err := filepath.Glob(testdata + "passwords/*.yaml")
	if err != nil || len(files) < 17 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	texts := []string{
		"contexts: {a: {store: &u 'redis://:SECRET@h'}}\npolicies: {p: {limits: [{name: a, by: [ip], limit: *u}]}}\n",
		"contexts: {a: {store: &u 'redis://u:SECRET@h/0'}}\npolicies: {p: {on_error: *u}}\n",
		"contexts: [[{? &u 'redis://SECRET@h' : x}]]\npolicies: {p: {limits: [{name: *u}]}}\n",
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		tier.Must(t, err)
		texts = append(texts, string(text)+"colour: red\n") // so that there is a mistake
	}
	for _, secret := range []string{"ZQuite-Zecret", "ZQ%41%42Q-QJVW", "ZQZQZQ-Äß"} {
		for _, text := range texts {
			_, err := policyfile.Parse("x.yaml", []byte(strings.ReplaceAll(text, "SECRET", secret)))
			var mistakes *policyfile.Mistakes
			if !errors.As(err, &mistakes) {
				t.Errorf("%v, of\n%s", err, text)
				continue
			}
			if strings.Contains(fmt.Sprint(err, mistakes.List), "ZQ") {
				t.Errorf("a password is shown, of\n%s\n%s", text, err)
			}
		}
	}
}

// Load refuses at once what is not a regular file or is too large.
func TestLoadReadsOnlyFiles(t *testing.T) {
	directory := t.TempDir()
	large := filepath.Join(directory, "large.yaml")
	tier.Must(t, os.WriteFile(large, nil, 0o600))
	tier.Must(t, os.Truncate(large, 10<<30))
	for path, want := range map[string]string{
		directory:   "it is a directory, not a file",
		"/dev/zero": "it is a device, not a file",
		large:       "it has more than 1 MiB, which is the most that is read of it",
	} {
		_, err := policyfile.Load(path)
		var system *fs.PathError
		if !errors.As(err, &system) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("of %s: %v", path, err)
		}
	}
	if _, err := policyfile.Load(filepath.Join(directory, "absent.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := policyfile.Parse("x.yaml", make([]byte, policyfile.MaxSize+1)); err == nil ||
		!strings.Contains(err.Error(), "at most 1048576 are read") {
		t.Error(err)
	}
}

// sickStore is away until it is back.
type sickStore struct {
	store.Store
	asked int
	err   error
}

func (s *sickStore) Decide(ctx context.Context, op store.Op, reqs []store.Request, decisions []store.Decision) error {
	if s.asked++; s.err != nil {
		return s.err
	}
	return s.Store.Decide(ctx, op, reqs, decisions)
}
