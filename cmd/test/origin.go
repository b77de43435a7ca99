package test

import (
	"net/url"
	"runtime"
	"strings"

	"github.com/limitctl/limitctl/internal/cli"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/report"
	"github.com/limitctl/limitctl/internal/shell"
)

// origin is the origin of a report, which is saved with it.
func origin(g *cli.Globals) *report.Origin {
	return &report.Origin{
		Version: g.Env.ProgramVersion(), Command: commandLine(g), Host: g.Env.Host(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.GOMAXPROCS(0),
	}
}

// hiddenWord stands for a word of a command line that may be a secret.
const hiddenWord = "..."

// commandLine is the command line quoted for a shell, without possible secrets: passwords in URLs, values of header
// fields, and bodies.
func commandLine(g *cli.Globals) string {
	words := []string{"limitctl"}
	var hide func(value string) string // hides the next word, if it may be a secret
	for _, arg := range g.Args {
		name, value, valued := strings.Cut(arg, "=")
		switch hiding := hidingOf(name); {
		case hide != nil:
			arg, hide = hide(arg), nil
		case hiding != nil && valued:
			arg = name + "=" + hiding(value)
		case hiding != nil:
			hide = hiding
		case strings.HasPrefix(arg, "-H"): // with its value in the same word
			arg = "-H" + hidingOf("-H")(arg[len("-H"):])
		case valued && strings.HasPrefix(name, "-"):
			arg = name + "=" + withoutPassword(value)
		default:
			arg = withoutPassword(arg)
		}
		words = append(words, arg)
	}
	return g.WithoutSecrets(shell.Command(words...))
}

// hidingOf returns the function that hides the value of a flag, or nil if the flag holds no secret.
func hidingOf(flag string) func(value string) string {
	switch flag {
	case "--header", "-H":
		return func(value string) string {
			field, _, _ := strings.Cut(value, ":")
			return field + ": " + hiddenWord
		}
	case "--body":
		return func(string) string { return hiddenWord }
	}
	return nil
}

// withoutPassword returns a word without its password, if it is a URL with one.
func withoutPassword(word string) string {
	scheme, _, isURL := strings.Cut(word, "://")
	switch {
	case !isURL || strings.ContainsAny(scheme, " =:/"):
		return word
	case redisserver.SeemsURL(word):
		return redisserver.RedactURL(word)
	}
	u, err := url.Parse(word)
	if err != nil {
		return scheme + "://" + hiddenWord
	}
	before, _, asks := strings.Cut(word, "?")
	if u.User != nil {
		_, host, _ := strings.Cut(before, "@")
		before = scheme + "://" + hiddenWord + "@" + host
	}
	if !asks {
		return before
	}
	// The names of a query stay and its values go, since it often holds the key of an API.
	parts := strings.Split(u.RawQuery, "&")
	for i, part := range parts {
		if name, value, _ := strings.Cut(part, "="); value != "" && !strings.Contains(value, "{subject}") {
			parts[i] = name + "=" + hiddenWord
		}
	}
	return before + "?" + strings.Join(parts, "&")
}
