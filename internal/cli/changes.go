package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/backup"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/progress"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/shell"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// NewRunner returns what runs operations in an open store; where is the store's name.
func NewRunner(g *Globals, s *Settings, backend connect.Store, where string) *operation.Runner {
	address, _ := connect.Address(s.Store) // the store is open, so it has one
	return &operation.Runner{
		Store:        backend,
		Place:        operation.Place{Access: s.Access(), Store: where, Prefix: s.Prefix, Layout: g.LayoutsName},
		Timeout:      g.Timeout,
		Now:          g.Env.Now,
		User:         userName(g),
		Account:      account(g),
		Host:         sys.Host(),
		OpenAuditLog: func() (auditlog.Writer, error) { return openAuditLog(g.Env) },
		Describe:     func(err error) string { return g.WithoutSecrets(Message(err)) },
		Warn:         func(err error) { fmt.Fprintf(g.Env.Err, "limitctl: warning: %s\n", Message(err)) },
		Address:      address,
	}
}

// Scan calls do with each selected key, and shows its progress on a terminal.
func Scan(ctx context.Context, g *Globals, backend admin.Keyspace, s *operation.Selection,
	do func(e *admin.Entry, foreign error) error) (operation.Found, error) {
	return operation.Scan(ctx, backend, s, &Observer{Global: g}, do)
}

// userName is the user that the environment names: with sudo, who called it. Where it names none, as in
// many containers, it is the name of the process's user.
func userName(g *Globals) string {
	for _, name := range []string{"SUDO_USER", "USER", "LOGNAME"} {
		if name := g.Env.Getenv(name); name != "" {
			return name
		}
	}
	return cmp.Or(sys.Account(), fmt.Sprintf("uid %d", sys.UserID()))
}

// account is the name of the process's user, if it is another than the user.
func account(g *Globals) string {
	if account := sys.Account(); account != userName(g) {
		return account
	}
	return ""
}

// stateFile returns the path of a file of the audit log and backups.
func stateFile(env *Env, names ...string) (string, error) {
	dir := stateDir(env.Getenv)
	if dir == "" {
		return "",
			Usagef("neither XDG_STATE_HOME nor HOME is set, so there is no place for the audit log and backups; set " +
				"one of them")
	}
	return filepath.Join(append([]string{dir}, names...)...), nil
}

// auditFile is the name of the audit log.
const auditFile = "audit.jsonl"

// openAuditLog opens the audit log to write to it.
func openAuditLog(env *Env) (auditlog.Writer, error) {
	path, err := stateFile(env, auditFile)
	if err != nil {
		return nil, err
	}
	if err := files.MakeDir(filepath.Dir(path)); err != nil {
		return nil, Usagef("the audit log cannot be written: %s; nothing was changed", err)
	}
	file, err := files.Append(path)
	if err != nil {
		return nil, Usagef("the audit log cannot be written: %s; nothing was changed", err)
	}
	return auditlog.NewFile(file), nil
}

// ReadJournal reads which runs changed something: those of the audit log in backend, unless that is nil, and with local
// those of this machine. It warns of texts that are not of the audit log.
func ReadJournal(ctx context.Context, g *Globals, backend store.Store, local bool, q auditlog.Query) (
	*auditlog.History, error) {
	journal := &auditlog.Journal{Timeout: g.Timeout}
	if backend != nil {
		journal.Store, _ = admin.AuditOf(backend)
	}
	if local {
		var err error
		if journal.Path, err = stateFile(g.Env, auditFile); err != nil {
			return nil, err
		}
	}
	history, err := journal.Read(ctx, q)
	if err != nil {
		return nil, Usagef("the audit log cannot be read: %s", err)
	}
	for _, bad := range history.Bad {
		g.Note("warning: %s", Message(bad))
	}
	return history, nil
}

// Progress returns what shows the progress of long work on standard error: a bar, or lines if that is no terminal. It
// is nil with --quiet.
func (g *Globals) Progress(title, noun string) *progress.Bar {
	switch {
	case g.Quiet:
		return nil
	case !g.Env.ErrIsTerminal:
		return progress.Lines(func(text string) { g.Note("%s", text) }, &g.lineDue, title, noun)
	}
	return progress.New(g.Env.rawErr, title, noun)
}

// Observer shows the progress of an operation on the terminal, and asks there.
type Observer struct {
	Global *Globals
	// Show shows what a reset is about to change; nil shows nothing.
	Show func(*operation.ResetResult)
}

// Begin implements [operation.Observer].
func (o *Observer) Begin(step, noun string) *progress.Bar { return o.Global.Progress(step, noun) }

// Selected implements [operation.Observer].
func (o *Observer) Selected(r *operation.ResetResult) {
	if o.Show != nil {
		o.Show(r)
	}
}

// Confirm implements [operation.Observer].
func (o *Observer) Confirm(ctx context.Context, q operation.Question) error {
	env := o.Global.Env
	if q.Context != "" {
		fmt.Fprintf(env.Err, "Context %s is protected. %s? Type its name to go on: ", output.Escape(q.Context),
			output.Escape(q.Text))
	} else {
		fmt.Fprintf(env.Err, "%s? [y/N] ", output.Escape(q.Text))
	}
	var line string
	answered := make(chan error, 1)
	panics.Go(func() error { // so that Ctrl-C at the prompt is heard
		line, _ = bufio.NewReader(env.In).ReadString('\n')
		return nil
	}, func(err error) { answered <- err })
	select {
	case <-ctx.Done():
		fmt.Fprintln(env.Err)
		return ctx.Err()
	case err := <-answered:
		if err != nil {
			return err
		}
	}
	if !strings.HasSuffix(line, "\n") { // Ctrl-D, after which the cursor is still on the line of the question
		fmt.Fprintln(env.Err)
	}
	if q.IsYes(line) {
		return nil
	}
	fmt.Fprintln(env.Err, "Nothing was changed.")
	return ErrDenied
}

// ConsentOptions are the flags that let a command change keys without a question.
type ConsentOptions struct {
	Yes     bool
	Confirm string
	Reason  string
}

// AddConsentFlags adds the flags of a command that asks before it changes something.
func (o *ConsentOptions) AddConsentFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.Yes, "yes", "y", false, "do not ask")
	o.addFlags(cmd, "")
}

// AddPublishConsentFlags is AddConsentFlags with a short form of --reason, which every version needs.
func (o *ConsentOptions) AddPublishConsentFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&o.Yes, "yes", "y", false, "do not ask")
	o.addFlags(cmd, "m")
	cmd.Flags().Lookup("reason").Usage = "why (required); the audit log shows the `TEXT`"
}

// AddChargeConsentFlags adds the flags of a command that asks in a protected context only.
func (o *ConsentOptions) AddChargeConsentFlags(cmd *cobra.Command) { o.addFlags(cmd, "") }

func (o *ConsentOptions) addFlags(cmd *cobra.Command, short string) {
	cmd.Flags().StringVar(&o.Confirm, "confirm", "", "`NAME` of the protected context, instead of typing it")
	cmd.Flags().StringVarP(&o.Reason, "reason", short, "", "why; the audit log shows the `TEXT`")
}

// Given is the consent that the flags give.
func (o *ConsentOptions) Given() operation.Consent {
	return operation.Consent{Yes: o.Yes, Context: o.Confirm, Reason: strings.TrimSpace(o.Reason)}
}

// CheckCharge is check for a command that asks in a protected context only.
func (o *ConsentOptions) CheckCharge(access operation.Access, terminal bool, command string) error {
	if !access.Protected && o.Confirm == "" && !access.ReadOnly {
		return nil
	}
	return o.Check(access, terminal || !access.Protected, command, "changes", "")
}

// Check reports early that the store is read-only, or that the command would have to ask
// and there is no terminal. does is what the command does, such as "deletes"; otherwise names
// the flags that the user can give instead of consent.
func (o *ConsentOptions) Check(access operation.Access, terminal bool, command, does, otherwise string) error {
	consent := o.Given()
	if err := consent.Check(access, command); err != nil || consent.Covers(access) || terminal {
		return err
	}
	if access.Protected {
		return Usagef("context %s is protected, and there is no terminal to type its name on; give %s%s",
			access.Context, shell.Command("--confirm", access.Context), otherwise)
	}
	return Usagef("%s asks before it %s, and there is no terminal to ask on; give --yes%s", command, does, otherwise)
}

// DefaultBackup is a new file in the state directory.
func DefaultBackup(env *Env) (*operation.BackupPlan, error) {
	path, err := stateFile(env, "backups", backup.Name(env.Now(), strconv.Itoa(sys.Process())))
	return &operation.BackupPlan{Path: path, MakeDir: true}, err
}

// BackupFolder is where backups are kept.
func BackupFolder(g *Globals) (*backup.Folder, error) {
	path, err := stateFile(g.Env, "backups")
	return &backup.Folder{Path: path}, err
}

// CommandHere is a command for the store that is chosen, whatever happens in between. It holds no password; the user
// gives that again, as LIMITCTL_PASSWORD.
func CommandHere(g *Globals, s *Settings, words ...string) string {
	words = append([]string{"limitctl"}, words...)
	if s.Context != nil {
		words = append(words, "--context", s.Context.Name)
	} else if !s.byDefault { // it may be pasted where the environment is another
		words = append(words, "--store", redisserver.WithoutPasswords(s.Store))
	}
	if g.ConfigFile != "" {
		words = append(words, "--config", g.ConfigFile)
	}
	if g.Changed("prefix") { // it may be pasted where the environment is another
		words = append(words, "--prefix", g.Prefix)
	}
	return shell.Command(words...)
}
