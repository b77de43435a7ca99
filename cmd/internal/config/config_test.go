package config

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// testdata are configurations with which the library is tested, too.
const testdata = "../../../internal/configfile/testdata/"

var update = flag.Bool("update", false, "write what the broken configurations' errors are now")

// For each file of testdata/broken a .txt file has all its mistakes.
func TestBrokenConfigurations(t *testing.T) {
	files, err := filepath.Glob(testdata + "broken/*.yaml")
	if err != nil || len(files) < 35 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, err = Parse(filepath.Base(file), data, nil)
			var mistakes *Mistakes
			if !errors.As(err, &mistakes) || !errors.Is(err, store.ErrInvalid) {
				t.Fatalf("the error is %v", err)
			}
			checkPositions(t, data, mistakes)
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, _ := os.ReadFile(golden)
			if got := err.Error() + "\n"; got != string(want) {
				t.Errorf("it says\n%s\nnot\n%s", got, want)
			}
		})
	}
}

// checkPositions checks that each mistake is somewhere in the file.
func checkPositions(t *testing.T, data []byte, mistakes *Mistakes) {
	t.Helper()
	lines := strings.Split(strings.ReplaceAll(string(data), "\r\n", "\n"), "\n")
	for i, m := range mistakes.List {
		if m.Line < 1 || m.Line > len(lines) || m.Column < 1 || m.Column > utf8.RuneCountInString(lines[m.Line-1])+1 {
			t.Errorf("%s is outside of the file", &m)
		}
		if m.Text == "" || m.Text != strings.TrimSpace(m.Text) || strings.Contains(m.Text, "\n") {
			t.Errorf("%q is no line of text", m.Text)
		}
		if i > 0 && m.Line < mistakes.List[i-1].Line {
			t.Errorf("%s comes after %s", &m, &mistakes.List[i-1])
		}
	}
}

func TestGoodConfigurations(t *testing.T) {
	files, err := filepath.Glob(testdata + "good/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if c := parseFile(t, file); c.Prefix == "" && len(c.Policies) == 0 {
			t.Errorf("%s says nothing", file)
		}
	}
}

func parseFile(t *testing.T, file string) *Config {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(file, data, nil)
	if err != nil {
		t.Fatalf("%s:\n%v", file, err)
	}
	return c
}

// The configurations in the documentation are valid.
func TestDocumentedConfigurations(t *testing.T) {
	n := 0
	for _, file := range []string{"../../../README.md", "../../../docs/configuration.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(text), "```yaml\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			if n++; strings.TrimSpace(block) == "" {
				t.Errorf("%s: an empty block", file)
			}
			if _, err := Parse(file, []byte(block), nil); err != nil {
				t.Error(err)
			}
		}
	}
	if n < 3 {
		t.Errorf("only %d configurations were found", n)
	}
}

func TestStoresAreChecked(t *testing.T) {
	_, err := Parse("x.yaml", []byte("contexts:\n  prod:\n    store: http://h\n"),
		func(url string) error { return store.Invalidf("%s is no store", url) })
	if want := "x.yaml:3:12: http://h is no store\n  2 |   prod:\n> 3 |     store: http://*\n                 ^"; fmt.Sprint(err) != want {
		t.Errorf("it says\n%v\nnot\n%s", err, want)
	}
}

func TestWhatAFileSays(t *testing.T) {
	c := parseFile(t, testdata+"good/everything.yaml")
	if c.Prefix != "my app" {
		t.Errorf("the prefix is %q", c.Prefix)
	}
	for _, test := range []struct {
		policy, limit string
		attributes    policy.Attributes
		want          string
	}{
		{"text", "a", nil, "leaky-bucket:10/1m,burst=20"},
		{"text", "b", nil, "fixed-window:5/1d"},
		{"hashed", "all", policy.Attributes{"tenant": "other"}, "token-bucket:1000/1m,burst=200"},
		{"hashed", "all", policy.Attributes{"tenant": "acme"}, "token-bucket:10000/1m,burst=300"},
		{"hashed", "all", policy.Attributes{"tenant": "007"}, "token-bucket:2000/1m,burst=200"}, // the burst of the limit
		{"hashed", "all", policy.Attributes{"tenant": "7"}, "token-bucket:1000/1m,burst=200"},
		{"hashed", "all", policy.Attributes{"tenant": "true"}, "token-bucket:1000/1m,burst=500"},
		{"hashed", "all", policy.Attributes{"tenant": "1.50"}, "fixed-window:1000/1m"}, // and has no burst
		{"hashed", "all", policy.Attributes{"tenant": "{x}", "plan": "a: b"}, "sliding-log:7/1s"},
		{"hashed", "all", policy.Attributes{"tenant": "{x}"}, "token-bucket:1000/1m,burst=200"},
		{"hashed", "all", policy.Attributes{"tenant": "x"}, "token-bucket:5/1m,burst=200"},
		{"same", "all", policy.Attributes{"tenant": "acme"}, "token-bucket:10000/1m,burst=300"},
		{"merged", "b", nil, "fixed-window:5/1d"},
		{"lists", "all", policy.Attributes{"tenant": "other"}, "token-bucket:1000/1m,burst=200"}, // the first merged counts
		{"quoted", "a", nil, "token-bucket:1/1s"},
	} {
		p, err := c.Policy(test.policy)
		if err != nil {
			t.Error(err)
			continue
		}
		i := slices.IndexFunc(p.Limits, func(l policy.Limit) bool { return l.Name == test.limit })
		if i < 0 {
			t.Errorf("policy %s has no limit %s", test.policy, test.limit)
		} else if got, _ := p.Limits[i].For(test.attributes); got.String() != test.want {
			t.Errorf("limit %s of policy %s for %v is %s, not %s", test.limit, test.policy, test.attributes, got, test.want)
		}
	}
	onError := map[string]store.FailurePolicy{"text": store.AllowOnError, "hashed": store.FailOnError, "merged": store.DenyOnError,
		"lists": store.AllowOnError, "quoted": store.FailOnError}
	for name, want := range onError {
		if p, err := c.Policy(name); err != nil || p.OnError != want {
			t.Errorf("policy %s: on_error %v, %v", name, p.OnError, err)
		}
	}
	text, _ := c.Policy("text")
	if text.Limits[0].Shadow || !text.Limits[1].Shadow || !slices.Equal(text.Limits[1].By, []string{"tenant", "user"}) {
		t.Errorf("%+v", text)
	}
	prod := Context{Name: "prod", Store: "rediss://operator@redis.example:6380/0", Prefix: "rl", PasswordFile: "~/.secrets/redis",
		ReadOnly: true, Protected: true}
	if got, err := c.Context("prod"); err != nil || !reflect.DeepEqual(*got, prod) {
		t.Errorf("%+v, %v", got, err)
	}
	for path, line := range map[string]int{"prefix": 2, "policies.text.limits[1].limit": 12, "policies.merged.on_error": 36,
		"policies.merged.limits[1].limit":              12,
		"policies.hashed.limits[0].overrides[5].limit": 30, "policies.same.limits[0].limit": 20, "contexts.prod.store": 42} {
		if got, ok := c.Origin(path); !ok || got.Line != line {
			t.Errorf("%s is said to come from %s, not line %d", path, got, line)
		}
	}
}

func TestUnknownNames(t *testing.T) {
	c := parseFile(t, testdata+"good/readme.yaml")
	const want = `policy "logn" is unknown; did you mean login?; ` + testdata + `good/readme.yaml has login, api`
	if _, err := c.Policy("logn"); fmt.Sprint(err) != want || !errors.Is(err, store.ErrInvalid) {
		t.Error(err)
	}
}

// A file in the working directory must not choose the server of a command.
func TestLoad(t *testing.T) {
	const user, local, named = "/home/me/.config/limitctl/limitctl.yaml", "limitctl.yaml", "/etc/named.yaml"
	files := map[string]string{}
	load := func(explicit string, variables ...string) (*Config, error) {
		return Load(Environment{
			Explicit: explicit,
			Getenv: func(name string) string {
				for _, v := range append(variables, "HOME=/home/me") {
					if value, is := strings.CutPrefix(v, name+"="); is {
						return value
					}
				}
				return ""
			},
			ReadFile: func(path string) ([]byte, error) {
				text, found := files[path]
				if !found {
					return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
				}
				return []byte(text), nil
			},
		})
	}
	want := func(c *Config, err error, file, prefix string, stores ...string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, x := range c.Contexts {
			got = append(got, x.Store)
		}
		if c.PolicyFile != file || c.Prefix != prefix || !slices.Equal(got, stores) {
			t.Errorf("policies are of %q, the prefix is %q, the contexts %q; not %q, %q, %q", c.PolicyFile, c.Prefix, got, file,
				prefix, stores)
		}
	}
	wantError := func(_ *Config, err error, text string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) || !errors.Is(err, store.ErrInvalid) {
			t.Errorf("the error is %v, not %q", err, text)
		}
	}
	c, err := load("")
	want(c, err, "", "")
	if !slices.Equal(c.Searched, []string{local, user}) {
		t.Errorf("looked for %q", c.Searched)
	}
	_, err = c.Policy("login")
	wantError(nil, err, "there is no configuration file; looked for limitctl.yaml, "+user)
	_, err = c.Context("prod")
	wantError(nil, err, "no contexts are configured; looked in "+user)

	files[user] = "prefix: user\ncontexts: {prod: {store: user-prod}, dev: {store: user-dev}}"
	c, err = load("")
	want(c, err, user, "user", "user-prod", "user-dev")
	files[local] = "prefix: local\npolicies: {p: {limits: [{name: a, by: [ip], limit: 1/s}]}}"
	c, err = load("")
	want(c, err, local, "local", "user-prod", "user-dev")
	if origin, _ := c.Origin("prefix"); origin.Path != local {
		t.Errorf("the prefix is said to come from %s", origin)
	}
	files[named] = "contexts: {prod: {store: named-prod}, eu: {store: named-eu}}"
	c, err = load("", "LIMITCTL_CONFIG="+named)
	want(c, err, named, "", "named-prod", "named-eu", "user-dev")
	if origin, _ := c.Origin("contexts.prod.store"); origin.Path != named {
		t.Errorf("the store is said to come from %s", origin)
	}
	c, err = load(local, "LIMITCTL_CONFIG="+named)
	want(c, err, local, "local", "user-prod", "user-dev")
	c, err = load(user)
	want(c, err, user, "user", "user-prod", "user-dev")
	c, err = load("", "XDG_CONFIG_HOME=/elsewhere")
	want(c, err, local, "local")
	c, err = load("", "XDG_CONFIG_HOME=relative")
	want(c, err, local, "local", "user-prod", "user-dev")

	_, err = load("/absent.yaml")
	wantError(nil, err, "--config names /absent.yaml, which does not exist")
	_, err = load("", "LIMITCTL_CONFIG=/absent.yaml")
	wantError(nil, err, "LIMITCTL_CONFIG names /absent.yaml, which does not exist")

	files[local] = "contexts: {prod: {store: elsewhere}}"
	_, err = load("")
	wantError(nil, err, "limitctl.yaml:1:11: contexts are not allowed in ./limitctl.yaml; move them to "+user)
	c, err = load(local)
	want(c, err, local, "", "elsewhere", "user-dev")
	files[user] = "colour: red"
	_, err = load("")
	wantError(nil, err, `limitctl.yaml:1:11: contexts are not allowed`)
	wantError(nil, err, user+`:1:1: the file has no field "colour"`)
}

// Reading never panics, and each mistake is somewhere in the file.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{testdata + "broken/*.yaml", testdata + "good/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			if data, err := os.ReadFile(file); err == nil && len(data) < 2000 {
				f.Add(data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return // the time of the YAML parser is not tested here
		}
		c, err := Parse("fuzz.yaml", data, nil)
		var mistakes *Mistakes
		switch {
		case errors.As(err, &mistakes):
			checkPositions(t, data, mistakes)
			if strings.ContainsAny(err.Error(), "\x1b\x00\t") {
				t.Errorf("what cannot be seen is printed: %q", err)
			}
		case err != nil:
			t.Errorf("an error of another kind: %v", err)
		default:
			for _, p := range c.Policies {
				if problems := p.Problems(); len(problems) > 0 {
					t.Errorf("a policy with problems is accepted: %v", problems)
				}
			}
		}
	})
}
