package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// NewRunner returns what runs operations in an open store; where is the store's name.
func NewRunner(g *Globals, s *Settings, backend connect.Store, where string) *operation.Runner {
	address, _ := connect.Address(s.Store.Value) // the store is open, so it has one
	return &operation.Runner{
		Store:        backend,
		Place:        operation.Place{Access: s.Access(), Store: where, Prefix: s.Prefix.Value, Layout: g.LayoutsName},
		Timeout:      g.Timeout,
		Files:        operationFiles(g),
		Now:          g.Env.Now,
		Sleep:        g.Env.Sleep,
		User:         user(g),
		Account:      account(g),
		Host:         g.Env.Host(),
		OpenAuditLog: func() (auditlog.Writer, error) { return openAuditLog(g.Env) },
		Describe:     func(err error) string { return g.WithoutSecrets(Message(err)) },
		Warn:         func(err error) { fmt.Fprintf(g.Env.Err, "limitctl: warning: %s\n", Message(err)) },
		Address:      address,
	}
}

func operationFiles(g *Globals) operation.Files {
	return operation.Files{Open: g.Env.Open, Create: g.Env.Create, MakeDir: g.Env.MakeDir, Remove: g.Env.Remove}
}

// Scan calls do with each selected key, and shows its progress on a terminal.
func Scan(ctx context.Context, g *Globals, backend admin.Keyspace, s *operation.Selection,
	do func(e *admin.Entry, foreign error) error) (operation.Found, error) {
	return operation.Scan(ctx, backend, s, &Observer{Global: g}, do)
}

// user is the user that the environment names: with sudo, who called it. Where it names none, as in
// many containers, it is the name of the process's user.
func user(g *Globals) string {
	for _, name := range []string{"SUDO_USER", "USER", "LOGNAME"} {
		if user := g.Env.Getenv(name); user != "" {
			return user
		}
	}
	return cmp.Or(g.Env.Account(), fmt.Sprintf("uid %d", g.Env.UserID))
}

// account is the name of the process's user, if it is another than the user.
func account(g *Globals) string {
	if account := g.Env.Account(); account != user(g) {
		return account
	}
	return ""
}

// errNoState says that there is no place for the audit and for backups.
var errNoState = Usagef("neither XDG_STATE_HOME nor HOME is set, so there is no place for the audit log and backups; set one of them")

// AuditFile is the file of the audit log.
func AuditFile(getenv func(string) string) (string, error) {
	dir := StateDir(getenv)
	if dir == "" {
		return "", errNoState
	}
	return filepath.Join(dir, "audit.jsonl"), nil
}

// openAuditLog opens the audit log to write to it.
func openAuditLog(env *Env) (auditlog.Writer, error) {
	path, err := AuditFile(env.Getenv)
	if err != nil {
		return nil, err
	}
	if err := env.MakeDir(filepath.Dir(path)); err != nil {
		return nil, Usagef("the audit log cannot be written: %s; nothing was changed", err)
	}
	file, err := env.Append(path)
	if err != nil {
		return nil, Usagef("the audit log cannot be written: %s; nothing was changed", err)
	}
	return auditlog.NewFile(file), nil
}

// ReadJournal reads the part of the audit log that is in the store: the runs of all machines. It returns what it could
// read even with an error, and warns of texts that are not of the audit log.
func ReadJournal(ctx context.Context, g *Globals, backend store.Store, q auditlog.Query) (*auditlog.History, error) {
	journal, has := admin.AuditOf(backend)
	if !has {
		return &auditlog.History{}, nil
	}
	ctx, cancel := store.BudgetContext(ctx, g.Timeout)
	defer cancel()
	entries, damaged, err := journal.ReadJournal(ctx, admin.JournalKept)
	texts := make([]string, len(entries))
	for i := range entries {
		texts[i] = entries[i].Text
	}
	history := auditlog.ReadTexts(texts, q)
	if bad := history.Bad + damaged; bad > 0 {
		g.Note("warning: %s in the journal of the store are not of the audit and are left out", CountOf(int64(bad), "text", "texts"))
	}
	return history, err
}

// ReadAuditFile reads the audit log of this machine from its file.
func ReadAuditFile(ctx context.Context, g *Globals, path string, q auditlog.Query) (*auditlog.History, error) {
	file, err := g.Env.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &auditlog.History{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return auditlog.Read(ctx, file, q)
}

// LocalRuns are the runs of this machine's audit in all contexts, the latest last.
func LocalRuns(ctx context.Context, g *Globals) ([]*auditlog.Entry, error) {
	path, err := AuditFile(g.Env.Getenv)
	if err != nil {
		return nil, err
	}
	history, err := ReadAuditFile(ctx, g, path, auditlog.Query{})
	if err != nil {
		return nil, Usagef("the audit log cannot be read: %s", err)
	}
	return history.Runs, nil
}
