package cmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// defaultWatch is the interval of --watch alone.
const defaultWatch = "2s"

func addWatchFlag(cmd *cobra.Command, watch *string) {
	cmd.Flags().StringVar(watch, "watch", "",
		"look again every `INTERVAL` ("+defaultWatch+" unless given as --watch=5s) until interrupted; into a pipe, as JSON lines")
	cmd.Flags().Lookup("watch").NoOptDefVal = defaultWatch
	cmd.RegisterFlagCompletionFunc("watch", cobra.NoFileCompletions)
}

// parseWatch reads the interval of --watch. It is 0 for the empty text.
func parseWatch(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	interval, err := limiter.ParsePeriod(text)
	if err != nil || interval < 100*time.Millisecond {
		return 0, usagef("--watch=%s is not an interval of 100ms or more; write it like --watch=5s, or --watch alone for %s",
			text, defaultWatch)
	}
	return interval, nil
}

// checkWatch reports a flag that --watch cannot be combined with.
func (g *globalOptions) checkWatch(interval time.Duration) error {
	switch {
	case interval == 0:
		return nil
	case g.quiet:
		return usagef("--watch shows answers, but --quiet shows none; give one of them")
	case g.format == "json" || g.format == "csv" || g.format == "yaml":
		return usagef("--watch does not work with -o %s; use -o jsonl", g.format)
	}
	return nil
}

// watchAnswers calls look and prints its answer, again and again until it is interrupted:
// on a terminal in place of the last answer, elsewhere as JSON lines with the time. look
// gets the number of rows there is room for, 0 for any number, and returns a note for the
// head line, too. A store that is away may come back, so watching goes on.
func (g *globalOptions) watchAnswers(
	ctx context.Context, interval time.Duration, look func(rows int) (output.Answer, string, error),
) error {
	quiet := g.quiet
	g.quiet = true // nothing but the answers belongs on this screen
	defer func() { g.quiet = quiet }()
	drawn := g.env.OutIsTerminal && g.format != "jsonl"
	if drawn {
		fmt.Fprint(g.env.rawOut, "\x1b[?25l\x1b[2J")      // no cursor, an empty screen
		defer fmt.Fprint(g.env.rawOut, "\x1b[?25h\x1b[J") // as it was, below the last answer
	}
	for {
		columns, rows := 0, 0
		if drawn {
			columns, rows = g.env.Size()
		}
		answer, note, err := look(max(0, rows-headLines))
		if err != nil && !limiter.IsAway(err) || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if drawn {
			err = g.drawFrame(answer, note, err, interval, columns, rows)
		} else {
			err = g.writeLines(answer, err)
		}
		if err != nil {
			return &outputError{err}
		}
		if err := g.env.Sleep(ctx, interval); err != nil {
			return err
		}
	}
}

// headLines is how many lines of a frame are not rows: the note, an empty line, the
// table's header, and the line of the cursor.
const headLines = 4

// drawFrame draws over the last frame line by line, so that the screen does not flicker.
func (g *globalOptions) drawFrame(answer output.Answer, note string, away error, interval time.Duration, columns, rows int) error {
	var body bytes.Buffer
	p := g.printer()
	p.Out, p.Quiet = output.NewTerminal(&body, p.Color), false
	if away == nil {
		answer.Print(p)
	} else {
		note = "no answer"
		fmt.Fprintln(p.Out, p.Paint(output.AtEnd, output.Cut(message(away), columns)))
	}
	head := fmt.Sprintf("%s  every %s  %s  (Ctrl-C ends)", g.env.Now().Format(time.TimeOnly), output.Duration(interval), note)
	lines := []string{p.Paint(output.Faint, output.Cut(head, columns)), ""}
	lines = append(lines, strings.Split(strings.TrimSuffix(body.String(), "\n"), "\n")...)
	var frame strings.Builder
	frame.WriteString("\x1b[H")
	for _, line := range lines[:min(len(lines), max(1, rows-1))] {
		frame.WriteString(output.CutPainted(line, columns) + "\x1b[K\r\n")
	}
	frame.WriteString("\x1b[J")
	_, err := g.env.rawOut.Write([]byte(frame.String()))
	return err
}

// writeLines writes the answer's documents, each with the current time.
func (g *globalOptions) writeLines(answer output.Answer, away error) error {
	if away != nil {
		fmt.Fprintf(g.env.Err, "limitctl: %s\n", message(away))
		return nil
	}
	now, err := json.Marshal(g.env.Now().UTC().Format(time.RFC3339Nano))
	if err != nil {
		return err
	}
	for _, line := range answer.Lines() {
		text, err := output.JSON(line)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(g.env.rawOut, `{"time":%s,%s`+"\n", now, strings.TrimPrefix(string(text), "{")); err != nil {
			return err
		}
	}
	return nil
}
