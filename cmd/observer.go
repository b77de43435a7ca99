package cmd

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/operation"
	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/cmd/internal/progress"
	"github.com/limitctl/limitctl/internal/panics"
)

// progress returns a bar, or nil if nobody can see it or it would disturb other output.
func (g *globalOptions) progress(title, noun string) *progress.Bar {
	if !g.env.ErrIsTerminal || g.quiet {
		return nil
	}
	return progress.New(g.env.rawErr, title, noun)
}

// observer shows an operation to whoever runs a command, and asks on the terminal.
type observer struct {
	global *globalOptions
	// show shows what a reset is about to change; nil shows nothing.
	show func(*operation.Selected)
}

// Begin implements [operation.Observer].
func (o *observer) Begin(step operation.Step) operation.Progress {
	noun := ""
	if step == operation.Scanning {
		noun = "matched"
	}
	return o.global.progress(string(step), noun)
}

// Selected implements [operation.Observer].
func (o *observer) Selected(s *operation.Selected) {
	if o.show != nil {
		o.show(s)
	}
}

// Undoable implements [operation.Observer]. The command prints the way back after its
// answer, out of the result.
func (o *observer) Undoable(operation.Undo) {}

// Confirm implements [operation.Observer].
func (o *observer) Confirm(ctx context.Context, q operation.Question) error {
	env := o.global.env
	if q.Context != "" {
		fmt.Fprintf(env.Err, "Context %s is protected. %s? Type its name to go on: ", output.Escape(q.Context), output.Escape(q.Text))
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
	return errDenied
}
