package cmd

import (
	"context"
	"encoding/json"
	"html"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/internal/tier"
)

// hostileSecrets are passwords with what URLs, shells, YAML, JSON, HTML and servers treat
// in a way of their own.
func hostileSecrets() []string {
	return []string{
		"hunter2-secret", "SECRET1'SECRET2 SECRET3", `quo"ted"-zebra`, "amper&sand&zebra", "at@sign@zebra:x",
		"slash/zebra/slash",
		"que?stion#zebra",
		"per%cent%41zebra", "  leading zebra  ", "plus+and+zebra=", `back\slash\nzebra`, "<b>zebra</b>&amp;",
		"`id`$(zebra)$ZEBRA",
		"{zebra: [zebra2]}", "*zebra-alias",
		"!zebra-tag", "zebra: yes # no", "pässwörd-zébrä", "秘密の縞馬です", "😀zebra😀", "tab\tzebra\there",
		strings.Repeat("zebra0123456789",
			12), "zebra,one,two|three>",
		"zb%", "9Z#", "xn--zebra--=='\"", "\x1b[31mzebra\x07", "Zebra.Zebra.Zebra.",
	}
}

// repeating are servers that repeat what they know: at once, whatever they are asked, or
// from within, after a login that went well.
func repeating(secret string) map[string]func(words []string) string {
	oneLine := strings.NewReplacer("\r", " ", "\n", " ").Replace
	all := func(words []string, quote func(string) string) string {
		parts := make([]string, len(words))
		for i, word := range words {
			parts[i] = quote(oneLine(word))
		}
		return strings.Join(parts, " ")
	}
	asIs := func(word string) string { return word }
	within := func(says string) func(words []string) string {
		return func(words []string) string {
			switch strings.ToUpper(words[0]) {
			case "AUTH", "SELECT", "CLIENT":
				return "+OK\r\n"
			case "PING":
				return "+PONG\r\n"
			case "HELLO":
				return "-ERR unknown command\r\n"
			case "DBSIZE":
				return ":1\r\n"
			case "INFO":
				var info strings.Builder
				for _, field := range []string{"redis_version:7.0.0-", "role:", "master_host:", "maxmemory_policy:",
					"slave0:port=1,state=a,ip="} {
					info.WriteString(field + says + "\r\n")
				}
				return redistest.Bulk(info.String())
			case "CONFIG":
				return "*2\r\n" + redistest.Bulk("save") + redistest.Bulk(says)
			case "ACL":
				return redistest.Bulk(says)
			case "TYPE":
				return "+" + oneLine(says) + "\r\n"
			}
			return "-ERR of " + oneLine(says) + "!\r\n"
		}
	}
	return map[string]func(words []string) string{
		"redis": func(words []string) string {
			return "-ERR unknown command '" + words[0] + "', with args beginning with: " + all(words[1:],
				func(w string) string { return "'" + w + "'" }) + "\r\n"
		},
		"plain": func(words []string) string { return "-ERR no " + all(words, asIs) + "\r\n" },
		"cut": func(words []string) string {
			return "-LOADING " + all(words, func(w string) string { return "'" + w[:min(len(w), 24)] + "'" }) + "\r\n"
		},
		"within": within(secret), "within, upper": within(strings.ToUpper(secret)),
	}
}

// shownPart returns a part of a secret that a text shows: eight bytes, or all of it, in
// any case and in any way that limitctl writes texts.
func shownPart(text, secret string) string {
	text = strings.ToLower(text)
	inJSON, _ := json.Marshal(secret)
	quoted := strings.Trim(strconv.Quote(secret), `"`)
	for _, way := range []string{secret, url.PathEscape(secret), quoted, strings.Trim(string(inJSON), `"`),
		html.EscapeString(secret)} {
		way = strings.ToLower(way)
		size := min(8, len(way))
		for i := 0; i+size <= len(way); i++ {
			if part := way[i : i+size]; strings.TrimSpace(part) != "" && strings.Contains(text, part) {
				return part
			}
		}
	}
	return ""
}

// aSecretPlace is a way to tell limitctl a password, and what it runs with then.
type aSecretPlace struct {
	name      string
	variables map[string]string
	config    string
	store     string // --store, if not empty
	context   string // --context, if not empty
}

func secretPlaces(address, secret, directory string) []aSecretPlace {
	escaped := strings.NewReplacer("&", "%26", ":", "%3A", "@", "%40", "+", "%2B", "=", "%3D").Replace(
		url.PathEscape(secret))
	inYAML, _ := json.Marshal("redis://u:" + escaped + "@" + address)
	places := []aSecretPlace{
		{name: "url", store: "redis://u:" + escaped + "@" + address},
		{name: "variable with the url", variables: map[string]string{
			"LIMITCTL_STORE": "redis://u:" + escaped + "@" + address}},
		{name: "variable", store: "redis://u@" + address, variables: map[string]string{"LIMITCTL_PASSWORD": secret}},
		{name: "file", context: "c", config: "contexts:\n  c: {store: \"redis://u@" + address +
			"\", password_file: pw}\n"},
		{name: "variable of a context", context: "c", variables: map[string]string{"PW": secret},
			config: "contexts:\n  c: {store: \"redis://u@" + address + "\", password_env: PW}\n"},
		{name: "url of a context", context: "c",
			config: "contexts:\n  c: {store: " + string(inYAML) + "}\n  other: {store: " + string(inYAML) + "}\n"},
		{name: "sentinel", store: "redis+sentinel://" + address + "/m?sentinel_username=u&sentinel_password=" +
			escaped},
		{name: "cluster", store: "redis+cluster://u:" + escaped + "@" + address},
	}
	if !strings.ContainsAny(secret, "/?#%") { // which are an error; also one that says nothing
		places = append(places, aSecretPlace{name: "url, not escaped", store: "redis://u:" + secret + "@" + address})
	} else {
		places = append(places, aSecretPlace{name: "broken url", store: "redis://u:" + secret + "@" + address})
	}
	os.WriteFile(filepath.Join(directory, "pw"), []byte(secret+"\n"), 0o600)
	return places
}

// realServer is what runAll is told if the server does what it is asked.
const realServer = "a real server"

// runAll runs commands with the password in a place, and looks for it in all they say
// and leave behind.
func runAll(t *testing.T, what, secret, directory string, place aSecretPlace, commands [][]string) {
	t.Helper()
	state := filepath.Join(directory, "state")
	w := newWorld(t)
	variables := map[string]string{"XDG_STATE_HOME": state, "LIMITCTL_CONFIG": filepath.Join(
		directory, "limitctl.yaml"), "HOME": directory}
	for name, value := range place.variables {
		variables[name] = value
	}
	w.Getenv = func(name string) string { return variables[name] }
	w.Sleep = sys.Sleep
	os.WriteFile(filepath.Join(directory, "limitctl.yaml"), []byte(place.config+"prefix: rl\n"), 0o600)
	for _, name := range []string{"saved.json", "saved.html", "recording"} {
		os.Remove(filepath.Join(directory, name))
	}
	for _, args := range commands {
		asked := args
		if what != realServer && len(args) > 1 && args[0] != "context" && args[0] != "config" {
			args = append(slices.Clone(args), "--timeout", "300ms") // some of the servers say nothing that ends
		}
		if args[0] == "simulate" && place.store == "" && place.context == "" {
			continue
		}
		if place.store != "" && args[0] != "context" {
			args = append(slices.Clone(args), "--store", place.store)
		} else if place.context != "" && args[0] != "context" {
			args = append(slices.Clone(args), "--context", place.context)
		}
		w.out.Reset()
		w.err.Reset()
		if Run(context.Background(), args, w.Env); strings.HasPrefix(w.err.String(), "limitctl: unknown ") {
			t.Errorf("limitctl %q: %s", args, w.err.String())
		}
		for stream, text := range map[string]string{"stdout": w.out.String(), "stderr": w.err.String()} {
			if part := shownPart(text, secret); part != "" {
				t.Errorf("%s, %s: %q shows %q of %q on %s:\n%.600s", what, place.name, asked, part, secret, stream,
					text)
			}
		}
	}
	filepath.WalkDir(directory, func(path string, entry os.DirEntry, err error) error {
		if name := entry.Name(); err != nil || entry.IsDir() || name == "pw" || name == "limitctl.yaml" {
			return err
		}
		content, _ := os.ReadFile(path)
		if part := shownPart(string(content), secret); part != "" {
			t.Errorf("%s, %s: %s has %q of %q", what, place.name, entry.Name(), part, secret)
		}
		return nil
	})
}

// secretDirectory has what commands read.
func secretDirectory(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	w := newWorld(t)
	w.run(t, exitYes, "consume", "user:1", "--limit", "3/1h")
	w.run(t, exitYes, "reset", "user:1", "--yes", "--backup", filepath.Join(directory, "backup.jsonl"))
	if err := os.WriteFile(filepath.Join(directory, "log.csv"), []byte("time,key\n1,a\n2,a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return directory
}

// copyOf is such a directory for a run that goes on beside others.
func copyOf(t *testing.T, directory string) string {
	t.Helper()
	own := t.TempDir()
	if err := os.CopyFS(own, os.DirFS(directory)); err != nil {
		t.Error(err)
	}
	return own
}

// Whatever a password holds, in each place and with each way of repeating it, it is in no kind of output:
// messages, documents of each format, files.
func TestNoKindOfOutputHoldsAPassword(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	t.Parallel()
	all := newSideBySide(4)
	directory := secretDirectory(t)
	secrets, styles := hostileSecrets(), slices.Sorted(maps.Keys(repeating("")))
	for i := range len(secretPlaces("", "", directory)) {
		for j, style := range styles {
			secret := secrets[(i*len(styles)+j)%len(secrets)]
			address := redistest.Scripted(t, repeating(secret)[style])
			all.do(func() {
				own := copyOf(t, directory)
				var third [][]string // so that each place and each style meets each command
				for k, command := range kindsOfOutput(own) {
					if (i+j+k)%3 == 0 {
						third = append(third, command)
					}
				}
				runAll(t, style, secret, own, secretPlaces(address, secret, own)[i], third)
			})
		}
	}
	all.wait()
}

// kindsOfOutput are commands of which each has another kind of output.
func kindsOfOutput(directory string) [][]string {
	in := func(name string) string { return filepath.Join(directory, name) }
	return [][]string{
		{"check", "user:1", "--limit", "3/1h", "-o", "json"}, {"reset", "user:*", "--yes"},
		{"inspect", "*", "-o", "json"},
		{"doctor"}, {"doctor", "-o", "json"}, {"undo", "--yes"}, {"override", "list"}, {"handover"},
		{"dashboard", "--once", "--refresh", "100ms"},
		{"loadtest", "--limit", "3/1h", "--rate", "50", "--duration", "40ms", "--keys", "2", "--save", in("saved.json"),
			"--html",
			in("saved.html")},
		{"context", "list"}, {"context", "list", "-o", "json"}, {"config", "status"},
		{"audit", "-o", "csv"},
	}
}

// The same with a server that does what it is asked: undo lines, audit, backups, reports.
func TestWorkLeavesNoPassword(t *testing.T) {
	tier.Full(t, "hostile servers, files and texts, which many commands meet")
	t.Parallel()
	server := redistest.Start(t)
	directory := secretDirectory(t)
	secrets := hostileSecrets()
	for i := range secretPlaces(server.Addr, secrets[0], directory) {
		secret := secrets[(i*5+1)%len(secrets)]
		place := secretPlaces(server.Addr, secret, directory)[i]
		server.Do("ACL", "SETUSER", "u", "reset", "on", ">"+secret, "~*", "&*", "+@all")
		if place.name != "sentinel" && place.name != "cluster" && place.name != "broken url" {
			runAll(t, realServer, secret, directory, place, kindsOfOutput(directory))
		}
	}
	if _, err := os.Stat(filepath.Join(directory, "saved.html")); err != nil {
		t.Errorf("no load test was run: %v", err)
	}
}

// What is typed in the wrong place is a store's URL still.
func TestMisplacedURLsAreRedacted(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{
		{"doctor", "redis://u:hunter2@h"}, {"redis://u:hunter@h"}, {"check", "--stor=redis://u:hunter2@h"},
		{"check", "u", "--limit", "redis://u:hunter2@h"},
		{"check", "u", "--output", "redis://u:hunter2@h"}, {"check", "u", "--store", "redis::hunter2@h"},
		{"check", "u", "--store",
			"redis//u:hunter2@h"},
		{"check", "u", "--context", "redis://u:hunter2@h"},
	} {
		w.out.Reset()
		w.err.Reset()
		if code := Run(context.Background(), args, w.Env); code != exitUsage ||
			strings.Contains(w.out.String()+w.err.String(), "hunter") {
			t.Errorf("%q: %d, %s%s", args, code, &w.out, &w.err)
		}
	}
}

func TestWhatIsNoPassword(t *testing.T) {
	directory := t.TempDir()
	w := newWorld(t)
	variables := map[string]string{"LIMITCTL_CONFIG": filepath.Join(directory, "c.yaml"), "HOME": directory}
	w.Getenv = func(name string) string { return variables[name] }
	const contexts = "contexts:\n  c: {store: redis://127.0.0.1:1, password_file: pw}\n  d: {store: " +
		"redis://127.0.0.1:1, " +
		"password_env: PW}\n"
	os.WriteFile(variables["LIMITCTL_CONFIG"], []byte(contexts), 0o600)
	for _, content := range []string{"hunter2\nhunter3\n", "hunter2\x00", strings.Repeat("hunter2", 10_000)} {
		os.WriteFile(filepath.Join(directory, "pw"), []byte(content), 0o600)
		variables["PW"], variables["LIMITCTL_PASSWORD"] = content, content
		for _, from := range [][]string{{"--context", "c"}, {"--context", "d"}, {"--store", "redis://127.0.0.1:1"}} {
			_, stderr := w.run(t, exitUsage, append([]string{"check", "u", "--limit", "1/1s"}, from...)...)
			if strings.Contains(stderr, "hunter") || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%v: %s", from, stderr)
			}
		}
	}
	os.WriteFile(filepath.Join(directory, "pw"), []byte("hunter2\r\n"), 0o600)
	if _, stderr := w.run(t, exitUnreachable, "check", "u", "--limit", "1/1s", "--context", "c"); !strings.Contains(
		stderr,
		"cannot be reached") {
		t.Errorf("the line's end is no part of it: %s", stderr)
	}
}
