package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Redis examines the servers of client. It changes nothing in them. After an error the report has what was found
// before.
func Redis(ctx context.Context, client redis.UniversalClient, options Options) (*Report, error) {
	if err := store.ValidatePrefix(options.Prefix); err != nil {
		return &Report{}, err
	}
	e := &examination{Options: options, client: client, servers: redisserver.New(client, options.Prefix)}
	err := e.run(ctx)
	e.report.sort()
	return &e.report, err
}

func (e *examination) run(ctx context.Context) error {
	servers, err := e.masters(ctx)
	if err != nil {
		return e.unreachable(&server{alone: e.servers}, err)
	}
	e.report.add(judgeTransport(e.Transport, e.servers.Nodes(ctx), e.servers.Redact)...)
	var failed error
	var up []*server
	pings, errs := make([][]time.Duration, len(servers)), make([]error, len(servers))
	var pinging panics.Group // concurrently, since time-outs of silent ones would add up
	for i, s := range servers {
		pinging.Go(func() { pings[i], errs[i] = e.ping(ctx, s) })
	}
	if err := pinging.Wait(); err != nil {
		return err
	}
	for i, s := range servers {
		if errs[i] != nil {
			failed = errors.Join(failed, e.unreachable(s, errs[i]))
			continue
		}
		e.report.Reached = true
		e.add(s, judgeLatency(pings[i]))
		up = append(up, s)
	}
	if len(up) == 1 && !e.servers.IsCluster() {
		if is, err := e.isSentinel(ctx, up[0]); is || err != nil {
			return err
		}
	}
	e.report.add(judgeSentinels(e.Sentinels)...)
	for _, check := range []func(context.Context, []*server) error{
		e.eachServer, e.clocks, e.cluster, e.keys, e.tables,
	} {
		if len(up) == 0 || ctx.Err() != nil {
			break
		}
		if err := check(ctx, up); err != nil {
			return errors.Join(failed, e.servers.Explain(err))
		}
	}
	return errors.Join(failed, ctx.Err())
}

// masters returns the servers that get takes.
func (e *examination) masters(ctx context.Context) ([]*server, error) {
	clients, err := e.servers.Masters(ctx)
	servers := make([]*server, len(clients))
	for i, client := range clients {
		servers[i] = &server{client: client, alone: redisserver.New(client, e.Prefix)}
		if e.servers.IsCluster() {
			servers[i].name = e.servers.Redact(client.Options().Addr)
		}
	}
	return servers, err
}

// unreachable adds the finding that a server gave no answer, or refused to, and returns the error as one of the
// limiter.
func (e *examination) unreachable(s *server, err error) error {
	e.unreached = true
	wrong := redisserver.WrongAnswer(err)
	err = s.alone.Explain(err)
	advice := "check that it runs, and that its address, firewall and TLS let you through"
	switch {
	case wrong != nil:
		advice = "another program listens there, or one in between changes the answers; check the host and the port"
	case errors.Is(err, store.ErrRefused):
		advice = "check the user name and password, or ask the server's operator for the rights (docs/operations.md)"
	}
	e.report.add(Finding{Check: "reachable", Status: Fail, Server: s.name, Summary: oneLine(err), Advice: advice})
	return err
}

// tables looks at the store's denials and overrides.
func (e *examination) tables(ctx context.Context, _ []*server) error {
	found, err := examineTables(ctx, e.Store)
	e.report.add(found...)
	return err
}

// LocalFiles are limitctl's files on this machine, apart from its configuration.
type LocalFiles struct {
	// Directory is the directory of these files; empty if the environment does not determine it.
	Directory string
	// Backups is the number of backups, and BackupBytes their size together.
	Backups     int
	BackupBytes int64
	// Problem says why the files cannot be read; nil if they can.
	Problem error
}

// largeBackups is the size of backups from which on somebody should tidy up.
const largeBackups = 1 << 30

// JudgeLocal judges the files on this machine, which undo resets and record who did what.
func JudgeLocal(l LocalFiles) Finding {
	f := Finding{Check: "local", Status: OK, Data: map[string]any{"directory": l.Directory, "backups": l.Backups,
		"backup_bytes": l.BackupBytes}}
	switch {
	case l.Directory == "":
		f.Status, f.Summary = Warn, "no place for the audit log and backups: neither XDG_STATE_HOME nor HOME is set"
		f.Advice = "set one of them; without it a reset needs --backup FILE"
		return f
	case l.Problem != nil:
		f.Status, f.Summary = Warn, "the files in "+output.Printable(l.Directory)+" cannot be looked at: "+oneLine(l.Problem)
		f.Advice = "without that directory a reset cannot be undone: look at its rights"
		return f
	}
	f.Summary = fmt.Sprintf("%s: %s of %s", output.Printable(l.Directory), output.Plural(l.Backups, "backup"), output.Bytes(l.BackupBytes))
	if l.BackupBytes >= largeBackups {
		f.Status = Warn
		f.Advice = "delete old backups with limitctl undo --prune 90d"
	}
	return f
}

// judgeTransport judges who can read the password, and answer in a server's place. nodes are the nodes of a Cluster,
// and redact removes secrets from addresses.
func judgeTransport(t redisserver.Transport, nodes []string, redact func(string) string) (found []Finding) {
	if t.Unchecked {
		return []Finding{{Check: "transport", Status: Warn,
			Summary: "TLS, but the server's certificate is not checked (tls_insecure=true): " +
				"anybody in between can read the password and forge answers",
			Advice: "leave tls_insecure out; for an authority of your own give tls_ca=FILE, " +
				"for another name tls_server_name=NAME (docs/redis.md)",
			Data: map[string]any{"tls": true, "checked": false}}}
	}
	if t.TLS {
		return nil
	}
	receivers := t.PasswordTo
	if t.LogsIn {
		receivers = append(slices.Clone(receivers), nodes...)
	}
	var far []string
	for _, address := range receivers {
		if host, _, err := net.SplitHostPort(address); err == nil && !redisserver.IsLocal(host) {
			far = append(far, redact(address))
		}
	}
	if len(far) == 0 {
		return nil
	}
	slices.Sort(far)
	far = slices.Compact(far)
	shown := far
	if len(shown) > mostFarShown {
		shown = append(slices.Clone(far[:mostFarShown]), output.Plural(len(far)-mostFarShown, "other"))
	}
	return []Finding{{Check: "transport", Status: Warn,
		Summary: "the password goes unencrypted to " + strings.Join(shown, ", ") + ": anybody in between can read it",
		Advice: "have the server speak TLS and write rediss in place of redis in its URL (docs/redis.md), " +
			"or connect by a tunnel that ends on this machine",
		Data: map[string]any{"tls": false, "password_unencrypted_to": far}}}
}

const mostFarShown = 3
