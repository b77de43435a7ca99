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
const testdata = "../configfile/testdata/"

var update = flag.Bool("update", false, "write what the broken configurations' errors are now")

// For each file of testdata/broken a .txt file has all its mistakes.
func TestBrokenConfigurations(t *testing.T) {
	files, err := filepath.Glob(testdata + "broken/*.yaml")
	if err != nil || len(files) < 35 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data := must(os.ReadFile(file))
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

func parseFile(t *testing.T, file string) *Config {
	t.Helper()
	data := must(os.ReadFile(file))
	c, err := Parse(file, data, nil)
	if err != nil {
		t.Fatalf("%s:\n%v", file, err)
	}
	return c
}

func TestStoresAreChecked(t *testing.T) {
	_, err := Parse("x.yaml", []byte("contexts:\n  prod:\n    store: http://h\n"),
		func(url string) error { return store.Invalidf("%s is no store", url) })
	if want := "x.yaml:3:12: http://h is no store"; fmt.Sprint(err) != want {
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
		// the burst of the limit
		{"hashed", "all", policy.Attributes{"tenant": "007"}, "token-bucket:2000/1m,burst=200"},
		{"hashed", "all", policy.Attributes{"tenant": "7"}, "token-bucket:1000/1m,burst=200"},
		{"hashed", "all", policy.Attributes{"tenant": "true"}, "token-bucket:1000/1m,burst=500"},
		{"hashed", "all", policy.Attributes{"tenant": "1.50"}, "fixed-window:1000/1m"}, // and has no burst
		{"hashed", "all", policy.Attributes{"tenant": "{x}", "plan": "a: b"}, "sliding-log:7/1s"},
		{"hashed", "all", policy.Attributes{"tenant": "{x}"}, "token-bucket:1000/1m,burst=200"},
		{"hashed", "all", policy.Attributes{"tenant": "x"}, "token-bucket:5/1m,burst=200"},
		{"same", "all", policy.Attributes{"tenant": "acme"}, "token-bucket:10000/1m,burst=300"},
		{"merged", "b", nil, "fixed-window:5/1d"},
		// the first merged counts
		{"lists", "all", policy.Attributes{"tenant": "other"}, "token-bucket:1000/1m,burst=200"},
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
			t.Errorf("limit %s of policy %s for %v is %s, not %s", test.limit, test.policy, test.attributes, got,
				test.want)
		}
	}
	onError := map[string]store.FailurePolicy{"text": store.AllowOnError, "hashed": store.FailOnError,
		"merged": store.DenyOnError,
		"lists":  store.AllowOnError, "quoted": store.FailOnError}
	for name, want := range onError {
		if p, err := c.Policy(name); err != nil || p.OnError != want {
			t.Errorf("policy %s: on_error %v, %v", name, p.OnError, err)
		}
	}
	text, _ := c.Policy("text")
	if text.Limits[0].Shadow || !text.Limits[1].Shadow || !slices.Equal(text.Limits[1].By, []string{"tenant", "user"}) {
		t.Errorf("%+v", text)
	}
	prod := Context{Name: "prod", Store: "rediss://operator@redis.example:6380/0", Prefix: "rl",
		PasswordFile: "~/.secrets/redis",
		ReadOnly:     true, Protected: true}
	if got, err := c.Context("prod"); err != nil || !reflect.DeepEqual(*got, prod) {
		t.Errorf("%+v, %v", got, err)
	}
	for path, line := range map[string]int{"prefix": 2, "policies.text.limits[1].limit": 12,
		"policies.merged.on_error":                     36,
		"policies.merged.limits[1].limit":              12,
		"policies.hashed.limits[0].overrides[5].limit": 30, "policies.same.limits[0].limit": 20,
		"contexts.prod.store": 42} {
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
	load := func(explicit, variable string) (*Config, error) {
		return Load(Environment{
			Explicit: explicit,
			Getenv: func(name string) string {
				for _, v := range []string{variable, "HOME=/home/me"} {
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
	for _, test := range []struct {
		write, text string // a file that is there from now on
		explicit    string // --config
		variable    string
		file        string // of the policies
		prefix      string
		stores      string
		origin      string // of what, and the file
		wrong       string // what Load, or else a lookup of a name, says
	}{
		{wrong: "there is no configuration file; looked for limitctl.yaml, " + user +
			"|no contexts are configured; looked in " + user},
		{write: user, text: "prefix: user\ncontexts: {prod: {store: user-prod}, dev: {store: user-dev}}",
			file: user, prefix: "user", stores: "user-prod user-dev"},
		{write: local, text: "prefix: local\npolicies: {p: {limits: [{name: a, by: [ip], limit: 1/s}]}}",
			file: local, prefix: "local", stores: "user-prod user-dev", origin: "prefix " + local},
		{write: named, text: "contexts: {prod: {store: named-prod}, eu: {store: named-eu}}",
			variable: "LIMITCTL_CONFIG=" + named,
			file:     named, stores: "named-prod named-eu user-dev", origin: "contexts.prod.store " + named},
		{explicit: local, variable: "LIMITCTL_CONFIG=" + named, file: local, prefix: "local",
			stores: "user-prod user-dev"},
		{explicit: user, file: user, prefix: "user", stores: "user-prod user-dev"},
		{variable: "XDG_CONFIG_HOME=/elsewhere", file: local, prefix: "local"},
		{variable: "XDG_CONFIG_HOME=relative", file: local, prefix: "local", stores: "user-prod user-dev"},
		{explicit: "/absent.yaml", wrong: `--config names "/absent.yaml", which does not exist`},
		{variable: "LIMITCTL_CONFIG=/absent.yaml\n",
			wrong: `LIMITCTL_CONFIG names "/absent.yaml\n", which does not exist`},
		{write: local, text: "contexts: {prod: {store: elsewhere}}",
			wrong: "limitctl.yaml:1:11: contexts are not allowed in ./limitctl.yaml; move them to " + user},
		{explicit: local, stores: "elsewhere user-dev", file: local},
		{write: user, text: "colour: red", wrong: "limitctl.yaml:1:11: contexts are not allowed|" + user +
			`:1:1: the file has no field "colour"`},
	} {
		if test.write != "" {
			files[test.write] = test.text
		}
		c, err := load(test.explicit, test.variable)
		if test.wrong != "" {
			if err == nil {
				_, noPolicy := c.Policy("login")
				_, noContext := c.Context("prod")
				err = errors.Join(noPolicy, noContext)
				if !slices.Equal(c.Searched, []string{local, user}) {
					t.Errorf("looked for %q", c.Searched)
				}
			}
			for text := range strings.SplitSeq(test.wrong, "|") {
				if err == nil || !strings.Contains(err.Error(), text) || !errors.Is(err, store.ErrInvalid) {
					t.Errorf("the error is %v, not %q", err, text)
				}
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var stores []string
		for _, x := range c.Contexts {
			stores = append(stores, x.Store)
		}
		if c.PolicyFile != test.file || c.Prefix != test.prefix || strings.Join(stores, " ") != test.stores {
			t.Errorf("%+v: policies are of %q, the prefix is %q, the contexts %q", test, c.PolicyFile, c.Prefix, stores)
		}
		if what, file, is := strings.Cut(test.origin, " "); is {
			if origin, _ := c.Origin(what); origin.Path != file {
				t.Errorf("%s is said to come from %s", what, origin)
			}
		}
	}
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

// must returns what a call returned that cannot fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
