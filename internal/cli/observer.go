package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/operation"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/progress"
)

// Progress returns what shows the progress of long work on standard error: a bar, or lines if that is no terminal. It is nil
// with --quiet.
func (g *Globals) Progress(title, noun string) *progress.Bar {
	switch {
	case g.Quiet:
		return nil
	case !g.Env.ErrIsTerminal:
		return progress.Lines(func(text string) { g.Note("%s", text) }, title, noun)
	}
	return progress.New(g.Env.rawErr, title, noun)
}

// Observer shows the progress of an operation on the terminal, and asks there.
type Observer struct {
	Global *Globals
	// Show shows what a reset is about to change; nil shows nothing.
	Show func(*operation.Selected)
}

// Begin implements [operation.Observer].
func (o *Observer) Begin(step operation.Step) operation.Progress {
	noun := ""
	if step == operation.Scanning {
		noun = "matched"
	}
	return o.Global.Progress(string(step), noun)
}

// Selected implements [operation.Observer].
func (o *Observer) Selected(s *operation.Selected) {
	if o.Show != nil {
		o.Show(s)
	}
}

// Undoable implements [operation.Observer]. The command prints the way back after its
// answer, out of the result.
func (o *Observer) Undoable(string) {}

// Confirm implements [operation.Observer].
func (o *Observer) Confirm(ctx context.Context, q operation.Question) error {
	env := o.Global.Env
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
	return ErrDenied
}
