package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// defaultWatch is the interval of --watch alone.
const defaultWatch = "2s"

// AddWatchFlag adds --watch.
func AddWatchFlag(cmd *cobra.Command, watch *string) {
	cmd.Flags().StringVarP(watch, "watch", "w", "",
		"look again every `INTERVAL` ("+defaultWatch+", or as in --watch=5s) until Ctrl-C (exit code 0); print JSON lines into a pipe")
	cmd.Flags().Lookup("watch").NoOptDefVal = defaultWatch
	cmd.RegisterFlagCompletionFunc("watch", cobra.NoFileCompletions)
}

// ParseWatch reads the interval of --watch. It is 0 for the empty text.
func ParseWatch(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	interval, err := store.ParsePeriod(text)
	if err != nil || interval < 100*time.Millisecond {
		return 0, Usagef("--watch=%s is not an interval of 100ms or more; write it like --watch=5s, or --watch alone for %s",
			text, defaultWatch)
	}
	return interval, nil
}

// CheckWatch reports a flag that --watch cannot be combined with.
func CheckWatch(g *Globals, interval time.Duration) error {
	switch {
	case interval == 0:
		return nil
	case g.Quiet:
		return Usagef("--watch shows answers, but --quiet shows none; give one of them")
	case g.Format.Shape() == output.AsDocument || g.Format.Shape() == output.AsRows:
		return Usagef("--watch does not work with -o %s; use -o jsonl", g.Format)
	}
	return nil
}

// WatchAnswers calls look and prints its answer again and again, until an interrupt, which is no
// error: on a terminal in place of the last answer, elsewhere as JSON lines with the time. look
// gets the number of rows that fit, 0 for any number, and also returns a note for the head line.
// A store that is away may come back, so watching goes on. If look returns an answer together
// with the error of one part of the store, the answer is shown.
func WatchAnswers(
	ctx context.Context, g *Globals, interval time.Duration, look func(rows int) (output.Answer, string, error),
) error {
	quiet := g.Quiet
	g.Quiet = true // nothing but the answers belongs on this screen
	defer func() { g.Quiet = quiet }()
	w := &watch{Globals: g, interval: interval}
	drawn := g.Env.OutIsTerminal && g.Format.Shape() != output.AsLines
	if drawn {
		fmt.Fprint(g.Env.RawOut, "\x1b[?25l\x1b[2J")      // no cursor, an empty screen
		defer fmt.Fprint(g.Env.RawOut, "\x1b[?25h\x1b[J") // as it was, below the last answer
	}
	for {
		columns, rows := 0, 0
		if drawn {
			columns, rows = g.Env.Size()
		}
		answer, note, err := look(max(0, rows-headLines))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !store.IsAway(err) {
			return err
		}
		w.heard(err)
		if drawn {
			err = w.drawFrame(answer, note, err, columns, rows)
		} else {
			err = w.writeLines(answer, err)
		}
		if err != nil {
			return NotPrinted(err)
		}
		if g.Env.Sleep(ctx, interval) != nil {
			return nil
		}
	}
}

// watch is what WatchAnswers remembers of earlier answers.
type watch struct {
	*Globals
	interval time.Duration
	// away is since when the store has been away, zero if it is not.
	away time.Time
	// good are the lines of the last frame of a complete answer, without its head, and goodAt is
	// its time.
	good   []string
	goodAt time.Time
}

// heard records whether the store has answered.
func (w *watch) heard(away error) {
	switch {
	case away == nil:
		w.away = time.Time{}
	case w.away.IsZero():
		w.away = w.Env.Now()
	}
}

// headLines is how many lines of a frame are not rows: the note, the state of the store or an
// empty line, the table's header, and the line of the cursor.
const headLines = 4

// drawFrame draws over the last frame line by line, so that the screen does not flicker.
// While the store is away the last good rows stay.
func (w *watch) drawFrame(answer output.Answer, note string, away error, columns, rows int) error {
	p := w.Printer()
	var body bytes.Buffer
	p.Out, p.Quiet = output.NewTerminal(&body, p.Color), false
	partial := answer != nil && IsPartial(away)
	if away == nil || partial {
		answer.Print(p)
	}
	drawn := strings.Split(strings.TrimSuffix(body.String(), "\n"), "\n")
	since, wrong := w.away.Format(time.TimeOnly), ""
	switch {
	case away == nil:
		w.good, w.goodAt = drawn, w.Env.Now()
	case partial:
		wrong = "incomplete since " + since
	case w.good == nil:
		wrong, note = "no answer since "+since, "no answer"
	default:
		wrong, note = "no answer since "+since, "as of "+w.goodAt.Format(time.TimeOnly)
		drawn = w.good
	}
	if away != nil {
		wrong = output.Cut(wrong+": "+w.WithoutSecrets(Message(away)), columns)
	}
	head := fmt.Sprintf("%s  every %s  %s  (Ctrl-C ends)", w.Env.Now().Format(time.TimeOnly), output.Duration(w.interval), note)
	lines := append([]string{p.Paint(output.Faint, output.Cut(head, columns)), p.Paint(output.AtEnd, wrong)}, drawn...)
	var frame strings.Builder
	frame.WriteString("\x1b[H")
	for _, line := range lines[:min(len(lines), max(1, rows-1))] {
		frame.WriteString(output.CutPainted(line, columns) + "\x1b[K\r\n")
	}
	frame.WriteString("\x1b[J")
	_, err := io.WriteString(w.Env.RawOut, frame.String())
	return err
}

// IsPartial reports whether an error concerns some servers of a store, and the others have
// answered completely.
func IsPartial(away error) bool {
	var incomplete *admin.IncompleteError
	return errors.As(away, &incomplete)
}

// writeLines writes the answer's documents, each with the current time, and after them the
// error, if any.
func (w *watch) writeLines(answer output.Answer, away error) error {
	var lines []any
	if away == nil || answer != nil && IsPartial(away) {
		lines = output.LinesOf(answer)
	}
	if away != nil {
		told := errorFor(w.Globals, away)
		fmt.Fprintf(w.Env.Err, "limitctl: %s\n", told.Message)
		lines = append(lines, told.Document())
	}
	now, err := json.Marshal(w.Env.Now().UTC().Format(time.RFC3339Nano))
	if err != nil {
		return err
	}
	for _, line := range lines {
		text, err := output.JSON(line)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w.Env.RawOut, `{"time":%s,%s`+"\n", now, strings.TrimPrefix(string(text), "{")); err != nil {
			return err
		}
	}
	return nil
}
