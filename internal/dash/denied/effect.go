package denied

import (
	"fmt"

	"github.com/limitctl/limitctl/internal/dash/figures"
	"github.com/limitctl/limitctl/internal/dash/source"
	"github.com/limitctl/limitctl/internal/output"
)

// Effect is what an override does now.
type Effect struct {
	Keys       int     // that are followed and it applies to
	Denied     float64 // denials a second of these
	LetThrough float64 // requests a second that it let through, of all keys
}

// CountLetThrough takes in what overrides let through.
func (d *Rates) CountLetThrough(since *source.DeniedSince) {
	if d.LetThrough == nil || since.First {
		d.LetThrough = map[string]*Rate{}
	}
	for id := range d.LetThrough {
		if since.LetThrough[id] == 0 {
			d.countLetThrough(id, 0, since)
		}
	}
	for id, count := range since.LetThrough {
		d.countLetThrough(id, count, since)
	}
}

func (d *Rates) countLetThrough(id string, count int64, since *source.DeniedSince) {
	known := d.LetThrough[id]
	if known == nil {
		known = &Rate{}
		d.LetThrough[id] = known
	}
	if d.Count(known, count, since); known.PerSecond == 0 {
		delete(d.LetThrough, id)
	}
}

// letThrough is what overrides let through a second, by their IDs; nil for nothing.
func (d *Rates) letThrough() map[string]float64 {
	if len(d.LetThrough) == 0 {
		return nil
	}
	perSecond := map[string]float64{}
	for id, known := range d.LetThrough {
		perSecond[id] = known.PerSecond
	}
	return perSecond
}

// Text says what the override does, in a few words.
func (e Effect) Text() string {
	through := "lets through " + short(e.LetThrough) + "/s"
	denies := "denies " + short(e.Denied) + "/s"
	switch {
	case e.LetThrough > 0 && e.Denied > 0:
		return through + ", " + denies
	case e.LetThrough > 0:
		return through
	case e.Keys == 0:
		return "no key"
	case e.Denied > 0:
		return denies
	}
	return output.Plural(e.Keys, "key")
}

// short writes a rate that is not zero; a little is not nothing.
func short(perSecond float64) string {
	if text := figures.Short(perSecond); text != "0" {
		return text
	}
	return "<0.1"
}

// Sentence says all of it.
func (e Effect) Sentence() string {
	text := fmt.Sprintf("applies to %s that are followed, denied %s a second", output.Plural(e.Keys, "key"), figures.Short(e.Denied))
	if e.LetThrough > 0 {
		text += fmt.Sprintf("; lets through %s a second", figures.Short(e.LetThrough))
	}
	return text
}
