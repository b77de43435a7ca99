package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/redact"
	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// Open connects to the chosen store; where names it in messages. The command may write to the store,
// so from now on an interrupt lets it end in order.
func (g *Globals) Open() (store connect.Store, where string, err error) {
	return g.OpenWatched(nil)
}

// OpenWatched is open with [connect.Options.OnBatch].
func (g *Globals) OpenWatched(onBatch func(calls int)) (store connect.Store, where string, err error) {
	return g.open(onBatch, g.OpenedToWrite)
}

// OpenToRead is open for a command that writes nothing, and so may end at any time.
func (g *Globals) OpenToRead() (store connect.Store, where string, err error) {
	return g.open(nil, g.Opened)
}

func (g *Globals) open(onBatch func(calls int), opened func(connect.Store, error) (connect.Store, error)) (
	store connect.Store, where string, err error) {
	url, options, err := g.Connection()
	if err != nil {
		return nil, "", err
	}
	if options.OnBatch = onBatch; onBatch == nil && options.Layouts == nil {
		store, where = g.early.take()
	}
	if store == nil {
		store, where, err = connect.Open(url, options)
	}
	store, err = opened(store, err)
	return store, where, err
}

// OpenedToWrite restricts an opened store, which the command may write to, to what the context
// in use allows.
func (g *Globals) OpenedToWrite(store connect.Store, err error) (connect.Store, error) {
	g.Env.Hold()
	return g.Opened(store, err)
}

// Opened restricts an opened store to what the context in use allows.
func (g *Globals) Opened(opened connect.Store, err error) (connect.Store, error) {
	s, settingsErr := g.Settings()
	if settingsErr != nil {
		return nil, settingsErr
	}
	var wrongURL redisserver.URLError
	switch {
	case err != nil && s.Context != nil:
		return nil, fmt.Errorf("context %q: %w", s.Context.Name, err)
	case s.byVariable && errors.As(err, &wrongURL): // and not the prefix
		return nil, fmt.Errorf("LIMITCTL_STORE: %w", err)
	case err != nil:
		return nil, err
	case s.Context != nil && s.Context.ReadOnly:
		opened = connect.ReadOnly(opened, s.Context.Name)
	}
	return opened, nil
}

// Connection returns the URL of the chosen store, and the options that a URL does not hold.
func (g *Globals) Connection() (url string, options connect.Options, err error) {
	if g.Timeout <= 0 {
		return "", options, Usagef("--timeout %s is not positive; give a duration such as 2s", g.Timeout)
	}
	s, err := g.Settings()
	if err != nil {
		return "", options, err
	}
	if !g.Quiet && !s.announced {
		s.announce(g.Env)
		s.announced = true
	}
	if !g.Quiet && s.Guard != nil && !s.guardAnnounced { // a refusal says so itself
		g.Note("this is the store of the protected context %s", output.Printable(s.Guard.Name))
		s.guardAnnounced = true
	}
	password, err := g.password(s.Context)
	return s.Store, connect.Options{Prefix: s.Prefix, Timeout: g.Timeout, Password: password,
		Layouts: g.Layouts, ReadFile: files.ReadCertificate, OwnFile: s.byDefault}, err
}

// WithoutSecrets returns a message without any password that the command knows. It is the last
// line of defence: texts of servers have lost theirs before. Answers do not pass here, since
// they must show the user's data unchanged.
func (g *Globals) WithoutSecrets(text string) string {
	secrets := redact.New(g.Env.Getenv("LIMITCTL_PASSWORD"), g.filePassword)
	urls := append([]string{g.Store, g.Env.Getenv("LIMITCTL_STORE")}, urlsAmong(g.Args)...)
	if g.files != nil {
		for _, x := range g.files.Contexts {
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
		text, err := files.Read(path, files.MaxPassword)
		if err != nil {
			return "", Usagef("the password file of context %q (%s) cannot be read: %s", x.Name, at, err)
		}
		password := strings.TrimRight(string(text), "\r\n")
		if err := checkPassword(password, "the password file "+path+" of context "+strconv.Quote(x.Name)+" ("+
			at.String()+")"); err != nil {
			return "", err
		}
		g.filePassword = password
		return password, nil
	case x != nil && x.PasswordEnv != "":
		password := g.Env.Getenv(x.PasswordEnv)
		if password == "" {
			return "", Usagef("the password of context %q is in the environment variable %s, which is not set", x.Name,
				x.PasswordEnv)
		}
		return password, checkPassword(password, "the environment variable "+x.PasswordEnv)
	}
	password := g.Env.Getenv("LIMITCTL_PASSWORD")
	return password, checkPassword(password, "the environment variable LIMITCTL_PASSWORD")
}

// checkPassword reports a text that cannot be a password.
func checkPassword(password, what string) error {
	if len(password) > files.MaxPassword || strings.ContainsAny(password, "\r\n\x00") {
		return Usagef("%s holds no password: it has more than %d bytes, a line end or a NUL character", what,
			files.MaxPassword)
	}
	return nil
}
