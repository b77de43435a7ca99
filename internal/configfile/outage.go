package configfile

import (
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Bounds of a breaker's settings. A value beyond them is a slip.
const (
	maxFailures = 1_000_000
	maxPause    = time.Hour
)

// readShare reads the field local_share of the file or of a policy.
func readShare(r *yamlfile.Reader, fields map[string]yamlfile.Value, unlessSaid store.Share) store.Share {
	v, said := fields["local_share"]
	if !said {
		return unlessSaid
	}
	text, ok := r.Text(v, "local_share", "a share of each limit, such as 25%")
	if !ok {
		return unlessSaid
	}
	share, err := store.ParseShare(text)
	if err != nil {
		r.Mistake(v, "%s", err)
		return unlessSaid
	}
	return share
}

// readBreaker reads the field breaker of the file.
func readBreaker(r *yamlfile.Reader, file map[string]yamlfile.Value) *layers.Breaker {
	breaker := layers.Breaker{}.WithDefaults()
	v, said := file["breaker"]
	if !said {
		return &breaker
	}
	fields, ok := r.Fields(v, "the breaker", breakerObject())
	if !ok {
		return &breaker
	}
	if e, said := fields["failures"]; said {
		if n, ok := readCount(r, e, maxFailures); ok {
			breaker.Failures = int(n)
		}
	}
	for _, field := range []struct {
		name string
		to   *time.Duration
	}{{"slow", &breaker.Slow}, {"pause", &breaker.Pause}, {"max_pause", &breaker.MaxPause}} {
		if e, said := fields[field.name]; said {
			readPause(r, e, field.to)
		}
	}
	_, pauseSaid := fields["pause"]
	if e, said := fields["max_pause"]; breaker.MaxPause < breaker.Pause {
		if said && !r.HasMistake(e.Path) {
			r.Mistake(e, "max_pause is %s, less than the pause of %s", store.FormatPeriod(breaker.MaxPause),
				store.FormatPeriod(breaker.Pause))
		} else if pauseSaid && !said {
			breaker.MaxPause = breaker.Pause
		}
	}
	if e, said := fields["enabled"]; said && !r.Bool(e) {
		return nil
	}
	return &breaker
}

// readPause reads a duration of a breaker.
func readPause(r *yamlfile.Reader, v yamlfile.Value, to *time.Duration) {
	text, ok := r.Text(v, v.Name, "a duration, such as 500ms")
	if !ok {
		return
	}
	if d, err := store.ParsePeriod(text); err == nil && d >= time.Millisecond && d <= maxPause {
		*to = d
		return
	}
	r.Mistake(v, "%s is %q; it must be a duration from 1ms to %s, such as 500ms", v.Name, text, store.FormatPeriod(maxPause))
}
