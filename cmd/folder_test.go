//go:build unix

package cmd

import (
	"errors"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// plants are what can be in the place of a file.
func plants(t *testing.T) map[string]func(path string) error {
	write := func(text string) func(path string) error {
		return func(path string) error { return os.WriteFile(path, []byte(text), 0o600) }
	}
	return map[string]func(path string) error{
		"fifo":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"zero":      func(path string) error { return os.Symlink("/dev/zero", path) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"dangling":  func(path string) error { return os.Symlink("absent", path) },
		"loop":      func(path string) error { return os.Symlink(filepath.Base(path), path) },
		"link to a fifo": func(path string) error {
			return errors.Join(syscall.Mkfifo(path+".fifo", 0o600), os.Symlink(path+".fifo", path))
		},
		"socket": func(path string) error {
			dir, err := os.MkdirTemp("", "s") // a socket's path is short
			if err != nil {
				return err
			}
			t.Cleanup(func() { os.RemoveAll(dir) })
			listener, err := net.Listen("unix", filepath.Join(dir, "s"))
			if err != nil {
				return err
			}
			t.Cleanup(func() { listener.Close() })
			return os.Symlink(filepath.Join(dir, "s"), path)
		},
		"sparse": func(path string) error { return errors.Join(write("")(path), os.Truncate(path, 1<<29)) },
		"empty":  write(""),
		"nul":    write(strings.Repeat("\x00", 5000)),
		"binary": write(strings.Repeat("\x8f\x03\xc1\xfe\n", 2000)),
		"long":   write(strings.Repeat("x", 3<<20)),
	}
}

// Whatever is in the place of a file that a command reads, on Tab as well, the command
// ends at once, with one short complaint and the exit code of a mistake.
func TestAHostileFolder(t *testing.T) {
	// none are what is no mistake: a file that need not be there, or may be empty, or
	// whose bad lines are left out.
	for _, test := range []struct {
		name, path string
		setUp      string // a file that names the other
		args       []string
		none       []string
		codes      []int
	}{
		{"a configuration", "limitctl.yaml", "", []string{"inspect", "*"}, []string{"dangling"}, nil},
		{"a named configuration", "c.yaml", "", []string{"check", "u", "--policy", "p", "--config", "c.yaml"}, nil,
			nil},
		{"a validated one", "c.yaml", "", []string{"config", "validate", "c.yaml"}, nil, []int{exitNo, exitUsage}},
		{"Tab", "limitctl.yaml", "", []string{"__complete", "check", "u", "--policy", ""}, []string{"*"}, nil},
		{"the chosen context", "state/limitctl/context", "", []string{"inspect", "*"}, []string{"dangling", "empty"},
			nil},
		{"a password", "secret", "contexts: {x: {store: 'redis://127.0.0.1:1', password_file: secret}}",
			[]string{"check", "u", "--limit", "1/1h", "--config", "named.yaml", "--context", "x"}, nil,
			[]int{exitUsage, exitUnreachable}},
		{"a certificate", "ca.pem", "",
			[]string{"check", "u", "--limit", "1/1h", "--store", "rediss://127.0.0.1:1?tls_ca=ca.pem"}, nil,
			nil},
		{"a key", "key.pem", "", []string{"check", "u", "--limit", "1/1h", "--store",
			"rediss://127.0.0.1:1?tls_cert=key.pem&tls_key=key.pem"}, nil, nil},
		{"a report", "r.json", "", []string{"report", "r.json"}, nil, nil},
		{"a log", "access.log", "", []string{"simulate", "access.log", "--limit", "1/1h"}, nil, nil},
		{"a backup", "backup.jsonl", "", []string{"undo", "backup.jsonl", "--yes"}, nil, nil},
		{"an audit", "state/limitctl/audit.jsonl", "", []string{"audit"},
			[]string{"dangling", "sparse", "empty", "nul", "binary", "long"},
			nil},
		{"the audit of a reset", "state/limitctl/audit.jsonl", "",
			[]string{"reset", "u", "--yes", "--store", "file:one.db"}, []string{"*"},
			nil},
		{"a store", "limits.db", "", []string{"consume", "u", "--limit", "1/1h", "--store", "file:limits.db"},
			[]string{"empty"}, []int{exitRefused}},
		{"a store's log", "one.db-wal", "", []string{"consume", "u", "--limit", "9/1h", "--store", "file:one.db"},
			[]string{"sparse", "empty", "nul", "binary", "long"}, []int{exitRefused}},
		{"a saved report", "out.json", "", []string{"simulate", "-", "--limit", "1/1h", "--save", "out.json"},
			[]string{"*"}, nil},
	} {
		for name, plant := range plants(t) {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				c := newChild(t, test.args...)
				if strings.Contains(strings.Join(test.args, " "), "one.db") {
					first := newChild(t, "consume", "u", "--limit", "9/1h", "--store",
						"file:"+filepath.Join(c.dir, "one.db"))
					first.start()
					if code := first.exit(); code != exitYes {
						t.Fatalf("exit code %d: %s", code, &first.stderr)
					}
				}
				c.file("named.yaml", test.setUp)
				path := filepath.Join(c.dir, test.path)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), plant(path)); err != nil {
					t.Fatal(err)
				}
				c.start()
				c.in.Close()
				code := c.exit()
				codes := test.codes
				if codes == nil {
					codes = []int{exitUsage}
				}
				says := c.stderr.String()
				if len(says) > 3000 || strings.Contains(says, "panic") || strings.Contains(says, "goroutine") {
					t.Errorf("it says %d bytes: %.500q", len(says), says)
				}
				if slices.Contains(test.none, "*") || slices.Contains(test.none, name) {
					return // that it ends is all
				}
				if !slices.Contains(codes, code) {
					t.Errorf("exit code %d, want %v; it says %.500q", code, codes, says)
				}
				if !strings.Contains(says, filepath.Base(test.path)) && code != exitUnreachable {
					t.Errorf("it does not name the file: %.500q", says)
				}
			})
		}
	}
}

// Where HOME is not set, the home is that of the account. One that is set and empty is none.
func TestHomeIsThatOfTheAccount(t *testing.T) {
	t.Setenv("HOME", "")
	if got := getenv("HOME"); got != "" {
		t.Errorf("an empty HOME is %q", got)
	}
	os.Unsetenv("HOME")
	account, err := user.Current() // some have an id and no name
	if got := getenv("HOME"); err == nil && got != account.HomeDir {
		t.Errorf("without HOME it is %q, want %q", got, account.HomeDir)
	}
}
