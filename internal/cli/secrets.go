package cli

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/redact"
	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// WithoutSecrets returns a message without any password that the command knows. It is the last
// line of defence: texts of servers have lost theirs before. Answers do not pass here, since
// they must show the user's data unchanged.
func (g *Globals) WithoutSecrets(text string) string {
	secrets := redact.New(g.Env.Getenv("LIMITCTL_PASSWORD"), g.ReadPassword)
	urls := append([]string{g.Store, g.Env.Getenv("LIMITCTL_STORE")}, urlsAmong(g.Args)...)
	if g.Loaded != nil {
		for _, x := range g.Loaded.Contexts {
			urls = append(urls, x.Store)
			if x.PasswordEnv != "" {
				secrets.Add(g.Env.Getenv(x.PasswordEnv))
			}
		}
	}
	for _, url := range urls {
		found := redisserver.URLSecrets(url)
		if secrets.Add(found...); len(found) == 0 {
			continue
		}
		for _, written := range []string{url, strings.Trim(strconv.Quote(url), `"`)} {
			text = strings.ReplaceAll(text, written, redisserver.RedactURL(url))
		}
	}
	return secrets.Text(text)
}

// urlsAmong returns the words of a command line that look like a store's URL, even in the
// place of something else.
func urlsAmong(args []string) (urls []string) {
	for _, arg := range args {
		if name, value, found := strings.Cut(arg, "="); found && strings.HasPrefix(name, "-") {
			arg = value
		}
		if redisserver.SeemsURL(arg) {
			urls = append(urls, arg)
		}
	}
	return urls
}

// password returns the password for a store whose URL has none.
func (g *Globals) password(x *config.Context) (string, error) {
	switch {
	case x != nil && x.PasswordFile != "":
		c, err := g.Config()
		if err != nil {
			return "", err
		}
		at, _ := c.Origin("contexts." + x.Name + ".password_file")
		path := x.PasswordFile
		if rest, is := strings.CutPrefix(path, "~/"); is && g.Env.Getenv("HOME") != "" {
			path = filepath.Join(g.Env.Getenv("HOME"), rest)
		} else if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(at.Path), path)
		}
		text, err := g.Env.ReadFile(path, files.MaxPassword)
		if err != nil {
			return "", Usagef("the password file of context %q (%s) cannot be read: %s", x.Name, at, err)
		}
		password := strings.TrimRight(string(text), "\r\n")
		if err := checkPassword(password, "the password file "+path+" of context "+strconv.Quote(x.Name)+" ("+at.String()+")"); err != nil {
			return "", err
		}
		g.ReadPassword = password
		return password, nil
	case x != nil && x.PasswordEnv != "":
		password := g.Env.Getenv(x.PasswordEnv)
		if password == "" {
			return "", Usagef("the password of context %q is in the environment variable %s, which is not set", x.Name, x.PasswordEnv)
		}
		return password, checkPassword(password, "the environment variable "+x.PasswordEnv)
	}
	password := g.Env.Getenv("LIMITCTL_PASSWORD")
	return password, checkPassword(password, "the environment variable LIMITCTL_PASSWORD")
}

// checkPassword reports a text that cannot be a password.
func checkPassword(password, what string) error {
	switch {
	case len(password) > files.MaxPassword:
		return Usagef("%s holds %d bytes, but a password has at most %d; is it the right one?", what, len(password), files.MaxPassword)
	case strings.ContainsRune(password, 0):
		return Usagef("%s holds a NUL character, which a password cannot have; is it the right one?", what)
	case strings.ContainsAny(password, "\r\n"):
		return Usagef("%s holds a line end, which a password cannot have; is it the right one?", what)
	}
	return nil
}
