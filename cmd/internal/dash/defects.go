package dash

import (
	"time"

	"github.com/limitctl/limitctl/cmd/internal/dash/figures"
	"github.com/limitctl/limitctl/cmd/internal/dash/followed"
	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/cmd/internal/output"
)

// defectSign marks rows with a defect.
const defectSign = "!"

// signOf is what stands before a row's subject.
func signOf(r *followed.Row) span {
	switch {
	case r.Stale:
		return span{"?", output.AtEnd}
	case r.IsStuck():
		return span{defectSign, output.AtEnd}
	case len(r.Defects) > 0:
		return span{defectSign, output.Near}
	case r.Override == nil: // a colour would show in the selected row, which is reversed
		return span{" ", output.Plain}
	}
	return span{overrideSign(r.Override), output.Near}
}

// defectLines are the defects of a row in words.
func defectLines(r *followed.Row, columns int) (lines []string) {
	for _, d := range r.Defects {
		text := d.Text
		if d.Stuck {
			text += "; waiting does not help, and a reset (r) does"
		}
		lines = append(lines, output.Wrap(output.Printable(text), columns)...)
	}
	return lines
}

// partLines are the store keys that belong together, with their types and expiries.
func partLines(d *source.Detail, columns int) (lines []string) {
	for i := range d.Parts {
		part := &d.Parts[i]
		about := part.Type
		if part.Field != "" {
			about = "the field " + output.Printable(part.Field) + " of a " + part.Type
		}
		if part.Expires.IsZero() {
			about += ", never expires"
		} else {
			about += ", expires in " + figures.Seconds(part.Expires.Sub(d.At.Time()).Round(time.Millisecond))
		}
		lines = append(lines, output.Wrap(output.Printable(part.StoreKey)+"  "+about, columns)...)
	}
	return lines
}
