package decide

import (
	"bufio"
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/outcome"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// mostKeysRead is how many keys one command reads from standard input at most.
const mostKeysRead = 100_000

// readsKeys reports whether the arguments ask for the keys on standard input. After -- a dash is a KEY like any other.
func readsKeys(cmd *cobra.Command, args []string) bool {
	return len(args) == 1 && args[0] == "-" && cmd.ArgsLenAtDash() != 0 && !cmd.Flags().Changed("policy")
}

// requestsOfKeys returns a request for each line of standard input. A mistake in any of them is found before one is decided.
func requestsOfKeys(g *cli.Globals, flags *requestFlags, cmd *cobra.Command, op store.Op) ([]*cli.LimitRequest, error) {
	for _, flag := range []string{"wait", "token", "token-ttl", "force", "up-to"} {
		if f := cmd.Flags().Lookup(flag); f != nil && f.Changed {
			return nil, cli.Usagef("--%s is for one KEY, and - reads many; leave out one of them", flag)
		}
	}
	var requests []*cli.LimitRequest
	if err := flags.checkLimits(); err != nil { // else a terminal waits for keys in vain
		return nil, err
	}
	lines, n := bufio.NewScanner(g.Env.In), 1
	for ; lines.Scan(); n++ {
		subject := strings.TrimSuffix(lines.Text(), "\r")
		if subject == "" {
			continue
		}
		request, err := flags.Request(cmd, g, op, []string{subject})
		if err != nil {
			return nil, cli.Usagef("line %d: %s", n, err)
		}
		if requests = append(requests, request); len(requests) > mostKeysRead {
			return nil, cli.Usagef("standard input has more than %d keys; divide it", mostKeysRead)
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, cli.Usagef("line %d: it is longer than %d KiB, and a KEY has at most %d bytes", n, bufio.MaxScanTokenSize>>10,
			store.MaxSubjectLength)
	}
	if err := lines.Err(); err != nil {
		return nil, cli.Usagef("standard input cannot be read as keys, a line each: %s", err)
	}
	if len(requests) == 0 {
		return nil, cli.Usagef("standard input has no keys; write a KEY on each line")
	}
	return requests, nil
}

// decideKeys decides the requests one after the other, prints all answers, and returns a denial if any was denied.
func decideKeys(ctx context.Context, g *cli.Globals, op store.Op, onError string, counts *bool, requests []*cli.LimitRequest) error {
	s, err := g.Settings()
	if err != nil {
		return err
	}
	if op != store.Peek && s.Access().Protected && operation.IsLarge(requests[0].Reqs) {
		return cli.Usagef("a large request in the protected context %s needs its name for each KEY; give one KEY", s.Access().Context)
	}
	backend, err := openToDecide(ctx, g, op, onError, counts, requests[0])
	if err != nil {
		return err
	}
	defer backend.Close()
	answer := &keysAnswer{}
	for i, request := range requests {
		decisions, err := decide(ctx, backend, op, request.Reqs)
		if err != nil && i > 0 {
			err = outcome.WithProgress(err, "%d of %d keys done", i, len(requests))
			if op != store.Peek {
				err = outcome.Partly(err)
			}
		}
		if err != nil {
			if i > 0 {
				if printErr := g.Print(answer); printErr != nil {
					return printErr
				}
			}
			return err
		}
		answer.each = append(answer.each, &decisionAnswer{verb: "allowed", LimitRequest: request, decisions: decisions,
			charges: op != store.Peek, now: g.Env.Now()})
		if !store.Summarize(decisions).Allowed {
			answer.denied++
		}
	}
	if requests[0].WithoutOverrides != nil {
		cli.WarnOfOverrides(g, requests[0].WithoutOverrides)
	}
	if err := g.Print(answer); err != nil {
		return err
	}
	if answer.denied > 0 {
		return cli.ErrDenied
	}
	return nil
}

// keysAnswer is the answer of check and consume about several keys.
type keysAnswer struct {
	each   []*decisionAnswer
	denied int
}

type keysDocument struct {
	SchemaVersion int   `json:"schema_version"`
	Allowed       bool  `json:"allowed"`
	Denied        int   `json:"denied"`
	Answers       []any `json:"answers"`
}

// Document implements output.Answer.
func (a *keysAnswer) Document() any {
	return &keysDocument{output.SchemaVersion, a.denied == 0, a.denied, a.Lines()}
}

// Lines returns the documents of the keys.
func (a *keysAnswer) Lines() []any {
	lines := make([]any, len(a.each))
	for i, one := range a.each {
		lines[i] = one.Document()
	}
	return lines
}

// Records implements output.Answer.
func (a *keysAnswer) Records() (records [][]string) {
	for i, one := range a.each {
		rows := one.Records()
		if i > 0 {
			rows = rows[1:] // the header is there
		}
		records = append(records, rows...)
	}
	return records
}

// Print implements output.Answer.
func (a *keysAnswer) Print(p *output.Printer) {
	for _, one := range a.each {
		one.Print(p)
	}
}
