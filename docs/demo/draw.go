//go:build demo

package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/shell"
)

// atTerminal: somebody reads along. colourful: in colours.
var (
	atTerminal = func() bool {
		out, err := os.Stdout.Stat()
		return err == nil && out.Mode()&os.ModeCharDevice != 0
	}()
	colourful = atTerminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
)

// Of a terminal's own colours, so that they are readable on its background.
const bold, dim, red, green, yellow = "1", "2", "31", "32", "33"

func in(colour, text string) string {
	if !colourful || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func heading(title, about string) {
	fmt.Printf("\n%s\n%s\n", in(bold, title), about)
}

// pause leaves somebody at a terminal time to read.
func pause(ctx context.Context) {
	if atTerminal {
		select {
		case <-time.After(4 * time.Second):
		case <-ctx.Done():
		}
	}
}

// showCommand shows a command as it is typed.
func showCommand(args ...string) {
	fmt.Printf("\n%s %s\n", in(bold, "$"), shell.Command(append([]string{"limitctl"}, args...)...))
}

// A bar is as long as times a limit.
type bar struct {
	Title      string
	Times      float64
	Note       string
	CPU, Bytes string // of a decision, if it is known, and of a key
}

// draw draws bars against the line of the limit. They fit 80 columns; a longer one is cut.
func draw(what, note string, bars []bar) {
	const cells = 26
	most := 2.0
	for _, b := range bars {
		most = max(most, b.Times)
	}
	line := int(cells / most) // the column of the limit
	if note != "" {
		note = strings.Repeat(" ", cells-line-3) + note
	}
	fmt.Printf("\n%-26s  %s%s%s\n", what, strings.Repeat(" ", line), in(yellow, "│ the limit"), note)
	for _, b := range bars {
		length := int(math.Round(b.Times * float64(line)))
		within, over := min(length, line), max(0, length-line)
		colour := green
		if over > 0 {
			colour = red
		}
		fmt.Printf("%-26s  %s%s%s%s%s %s  %s\n", b.Title,
			strings.Repeat("█", within), strings.Repeat(" ", line-within), in(yellow, "│"),
			in(red, strings.Repeat("█", over)), strings.Repeat(" ", cells-line-over),
			in(colour, fmt.Sprintf("%.2f ×", b.Times)), b.Note)
	}
}

// share draws how many keys there are of all.
func share(title string, keys, all int, note string) {
	const cells = 20
	full := int(math.Round(float64(keys) / float64(all) * cells))
	bar := strings.Repeat("█", full) + in(dim, strings.Repeat("░", cells-full))
	fmt.Printf("%-13s  %s %11s  %s\n", title, bar, output.Count(keys, "key"), note)
}

// whereToLook says where the code of what was shown is, and what to type next.
func whereToLook(took time.Duration) {
	heading("Where it is", fmt.Sprintf("That took %.0f s. What you saw is in", took.Seconds()))
	fmt.Print(`  docs/demo/leak.go      the leak, and the call that mends it
  lua/                   a take is one script, which Redis runs as a whole
  pkg/loadgen/audit/     what compares each answer with the limit
  cmd/stepin/reset.go    reset; undo.go beside it brings back

Next:
  make prove                                 measures what README claims
  bin/limitctl consume user:42 --limit 3/1h  needs no server
  bin/limitctl loadtest URL --limit 10/1m    does your own service leak?
`)
}
