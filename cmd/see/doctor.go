package see

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/internal/doctor"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
)

type doctorOptions struct {
	*cli.Globals
	scanLimit int
}

// NewDoctorCmd makes limitctl doctor.
func NewDoctorCmd(global *cli.Globals) *cobra.Command {
	o := &doctorOptions{Globals: global}
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine the store and say what to fix",
		Long: `Doctor checks the store as an expert would: whether it answers and how fast, its
version, replicas, persistence, memory, eviction and clock, the rights of its
user, the keys under the prefix, and who has the published configuration. It
changes nothing. Each check is ✓ fine, ! a warning or ✗ a problem. Warnings and
problems come with advice.

Exit codes: 0 no problem; 1 a problem (✗); 3 the store cannot be reached; 4 the
store refuses; 5 findings are missing, because the store stopped answering or
one of several servers cannot be reached.`,
		Example: `  limitctl doctor
  limitctl doctor -o json > findings.json
  limitctl doctor --scan-limit 0`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), o) },
	}
	cli.NumberFlag(cmd.Flags(), &o.scanLimit, "scan-limit", "", 100_000,
		"look at no more than `N` keys of the store; 0 is all")
	return cmd
}

func runDoctor(ctx context.Context, o *doctorOptions) error {
	report, err := o.examine(ctx)
	if report == nil {
		return err
	}
	if printErr := o.Print(&doctorAnswer{report}); printErr != nil {
		return printErr
	}
	switch {
	case err != nil && report.Reached:
		return outcome.Partly(fmt.Errorf("the examination is not complete: %w", err))
	case err != nil:
		return err
	case report.Count(doctor.Fail) > 0:
		return cli.ErrDenied
	}
	return nil
}

// examine returns no report if there is nothing to examine.
func (o *doctorOptions) examine(ctx context.Context) (*doctor.Report, error) {
	url, options, err := o.Connection()
	if err != nil {
		return nil, err
	}
	store, client, _, err := connect.OpenWithClient(url, options)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	report, err := doctor.Embedded(ctx, store)
	if report == nil {
		var about doctor.Options
		if about, err = o.servers(ctx, url, options); err != nil {
			return nil, err
		}
		about.Store = store
		report, err = doctor.Redis(ctx, client, about)
	}
	return report, err
}

// servers returns what the doctor has to know of the servers of a URL.
func (o *doctorOptions) servers(ctx context.Context, url string, options connect.Options) (
	about doctor.Options, err error) {
	about = doctor.Options{Prefix: options.Prefix, ScanLimit: o.scanLimit, Now: o.Env.Now}
	parsed, access, err := connect.Redis(url, options)
	if err != nil {
		return about, err
	}
	if about.Transport, err = parsed.Transport(ctx, access); err != nil {
		return about, err
	}
	about.Sentinels, err = parsed.Sentinels(ctx, access)
	return about, err
}

// doctorAnswer is what an examination found.
type doctorAnswer struct{ report *doctor.Report }

// Document implements output.Answer.
func (a *doctorAnswer) Document() any {
	return struct {
		SchemaVersion int              `json:"schema_version"`
		Failed        int              `json:"failed"`
		Warnings      int              `json:"warnings"` // how many checks work with a risk
		Fine          int              `json:"fine"`     // how many checks found nothing
		Findings      []doctor.Finding `json:"findings"`
	}{output.SchemaVersion, a.report.Count(doctor.Fail), a.report.Count(doctor.Warn), a.report.Count(doctor.OK),
		a.report.Findings}
}

// Items implements output.Answer.
func (a *doctorAnswer) Items() any { return a.report.Findings }

// Print implements output.Answer. What several servers have in common is said once.
func (a *doctorAnswer) Print(p *output.Printer) {
	findings, names := joinServers(a.report.Findings), 0
	for _, f := range findings {
		names = max(names, len(f.Check))
	}
	for _, f := range findings {
		mark, style := "✓", output.Calm
		switch f.Status {
		case doctor.Fail:
			mark, style = "✗", output.AtEnd
		case doctor.Warn:
			mark, style = "!", output.Near
		case doctor.OK:
		}
		text := f.Summary
		if f.Server != "" {
			text = f.Server + ": " + text
		}
		indent := p.Labelled(fmt.Sprintf("%s %-*s  ", p.Paint(style, mark), names, f.Check), names+4, text)
		advice, command, _ := strings.Cut(f.Advice, shell.SetUserBegins)
		var lines []string
		if advice != "" {
			lines = output.Wrap(strings.TrimRight(advice, " "), p.Width-indent-2)
		}
		if command != "" { // which is pasted, so the terminal alone may break it
			lines = append(lines, shell.SetUserBegins+command)
		}
		arrow := "→ "
		for _, line := range lines {
			fmt.Fprintln(p.Out, strings.Repeat(" ", indent)+p.Paint(output.Faint, arrow+line))
			arrow = "  "
		}
	}
	fails, warns := a.report.Count(doctor.Fail), a.report.Count(doctor.Warn)
	style := output.Calm
	if fails > 0 {
		style = output.AtEnd
	} else if warns > 0 {
		style = output.Near
	}
	fmt.Fprintln(p.Out, p.Paint(style, fmt.Sprintf("%s, %s, %d fine", output.Count(fails, "problem"),
		output.Count(warns, "warning"), a.report.Count(doctor.OK))))
}

// joinServers makes one finding of those that differ in nothing but their server.
func joinServers(findings []doctor.Finding) (joined []doctor.Finding) {
	servers := map[doctor.Finding]int{}
	for _, f := range findings {
		common := f
		if common.Server = ""; f.Server != "" {
			servers[common]++
		}
	}
	for _, f := range findings {
		common := f
		common.Server = ""
		switch n := servers[common]; {
		case n > 1:
			f.Server = output.Count(n, "server")
			delete(servers, common)
		case n == 0 && f.Server != "": // of those that were joined
			continue
		}
		joined = append(joined, f)
	}
	return joined
}
