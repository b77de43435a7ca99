// Package progress shows how far long work has come: as a bar on a terminal, or else as a line now and then.
package progress

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/limitctl/limitctl/internal/output"
)

// showAfter is the time until the bar appears: short work needs none.
const showAfter = 300 * time.Millisecond

// LineEvery is the time between two lines where there is no terminal, such as in the log of a build.
const LineEvery = 10 * time.Second

// Bar shows the progress of work. The nil Bar shows nothing, for output that nobody sees. It is for one goroutine.
type Bar struct {
	out     io.Writer
	line    func(text string) // prints a line instead of a bar
	lineDue *time.Time
	title   string // the work, such as "scanning"
	noun    string // what Set counts, such as "matched"
	begin   time.Time
	bars    *mpb.Progress
	bar     *mpb.Bar
	words   atomic.Pointer[string] // beside the bar
}

// New returns a Bar on a terminal.
func New(terminal io.Writer, title, noun string) *Bar {
	return &Bar{out: terminal, title: title, noun: noun, begin: time.Now()}
}

// Lines returns a Bar that prints lines, for output that is no terminal. Several, one after the other, share the
// instant at which the next line is due, zero before the first.
func Lines(line func(text string), due *time.Time, title, noun string) *Bar {
	begin := time.Now()
	if due.IsZero() {
		*due = begin.Add(LineEvery)
	}
	return &Bar{line: line, title: title, noun: noun, begin: begin, lineDue: due}
}

// Set shows that done of total keys are done, and that matched of them counted.
func (b *Bar) Set(done, total, matched int64) {
	if b != nil {
		b.Say(done, total, describe(done, total, matched, b.noun, time.Since(b.begin)))
	}
}

// Say shows that done of total are done, in any unit, with words.
func (b *Bar) Say(done, total int64, words string) {
	switch {
	case b == nil:
		return
	case b.line != nil:
		if late := time.Since(*b.lineDue); late >= 0 {
			*b.lineDue = b.lineDue.Add(late.Truncate(LineEvery) + LineEvery)
			b.line(b.title + words)
		}
		return
	}
	b.words.Store(&words)
	if b.bar == nil {
		if time.Since(b.begin) < showAfter {
			return
		}
		b.bars = mpb.New(mpb.WithOutput(b.out), mpb.WithAutoRefresh(), mpb.WithRefreshRate(100*time.Millisecond))
		b.bar = b.bars.New(total, mpb.BarStyle().Lbound("").Filler("█").Tip("█").Padding("░").Rbound(""),
			mpb.BarWidth(20), mpb.BarRemoveOnComplete(),
			mpb.PrependDecorators(decor.Name(output.Escape(b.title)+" ")),
			mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return output.Escape(*b.words.Load()) })))
	}
	b.bar.SetTotal(total, false)
	b.bar.SetCurrent(done)
}

// Close removes the bar from the terminal.
func (b *Bar) Close() {
	if b == nil || b.bar == nil {
		return
	}
	b.bar.Abort(true)
	b.bars.Wait()
}

// describe describes the progress after the time elapsed: how many keys are done and counted, how many are done in
// a second, and how long the rest takes.
func describe(done, total, matched int64, noun string, elapsed time.Duration) string {
	text := fmt.Sprintf(" %s/%s", Count(done), Count(total))
	if noun != "" {
		text += fmt.Sprintf(", %s %s", Count(matched), noun)
	}
	if perSecond := float64(done) / elapsed.Seconds(); done > 0 && elapsed > 0 {
		text += fmt.Sprintf(", %s/s", Count(int64(perSecond)))
		if left := time.Duration(float64(total-done) / perSecond * float64(time.Second)); left > 0 {
			text += ", " + output.Duration(left.Round(time.Second)) + " left"
		}
	}
	return text
}

// Count writes a count in at most five characters: 999, 12.3k, 4.5M.
func Count(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 999_950:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1fM", float64(n)/1e6)
}
