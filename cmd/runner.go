package cmd

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"github.com/limitctl/limitctl/cmd/internal/connect"
	"github.com/limitctl/limitctl/cmd/internal/identity"
	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/trail"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
)

// runner returns what runs operations in an open store; where is the store's name.
func (g *globalOptions) runner(s *settings, backend connect.Store, where string) *operation.Runner {
	return &operation.Runner{
		Store:     backend,
		Place:     operation.Place{Access: s.access(), Store: where, Prefix: s.prefix.value, Layout: g.layoutsName},
		Timeout:   g.timeout,
		Files:     g.operationFiles(),
		Now:       g.env.Now,
		Sleep:     g.env.Sleep,
		User:      g.user(),
		Account:   g.account(),
		Host:      g.env.Host(),
		OpenTrail: func() (trail.Writer, error) { return openTrail(g.env) },
		Describe:  func(err error) string { return g.withoutSecrets(message(err)) },
		Warn:      func(err error) { fmt.Fprintf(g.env.Err, "limitctl: warning: %s\n", message(err)) },
		Identify:  func(ctx context.Context) (identity.Store, error) { return g.identify(ctx, s, backend) },
		LookUp:    g.lookUp(),
	}
}

func (g *globalOptions) operationFiles() operation.Files {
	return operation.Files{Open: g.env.Open, Create: g.env.Create, MakeDir: g.env.MakeDir, Remove: g.env.Remove}
}

// scan calls do with each selected key. Somebody who looks is shown how far it has come.
func (g *globalOptions) scan(ctx context.Context, backend admin.Keyspace, s *operation.Selection,
	do func(e *admin.Entry, foreign error) error) (operation.Found, error) {
	return operation.Scan(ctx, backend, s, &observer{global: g}, do)
}

// user is who runs the command, as the environment says: behind sudo, who called it. Where it
// says nothing, as in many containers, it is the name of the process's user.
func (g *globalOptions) user() string {
	for _, name := range []string{"SUDO_USER", "USER", "LOGNAME"} {
		if user := g.env.Getenv(name); user != "" {
			return user
		}
	}
	return cmp.Or(g.env.Account(), fmt.Sprintf("uid %d", g.env.UserID))
}

// account is the name of the process's user, if it is another than the user.
func (g *globalOptions) account() string {
	if account := g.env.Account(); account != g.user() {
		return account
	}
	return ""
}

// errNoState says that there is no place for the audit and for backups.
var errNoState = &usageError{"neither XDG_STATE_HOME nor HOME says where the audit and backups can be kept; set one of them"}

// auditFile is the file of the audit trail.
func auditFile(getenv func(string) string) (string, error) {
	dir := stateDir(getenv)
	if dir == "" {
		return "", errNoState
	}
	return filepath.Join(dir, "audit.jsonl"), nil
}

// openTrail opens the audit trail to write to it.
func openTrail(env *Env) (trail.Writer, error) {
	path, err := auditFile(env.Getenv)
	if err != nil {
		return nil, err
	}
	if err := env.MakeDir(filepath.Dir(path)); err != nil {
		return nil, usagef("the audit cannot be kept: %s; nothing was changed", err)
	}
	file, err := env.Append(path)
	if err != nil {
		return nil, usagef("the audit cannot be kept: %s; nothing was changed", err)
	}
	return trail.NewFile(file), nil
}
