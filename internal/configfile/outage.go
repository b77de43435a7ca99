package configfile

import (
	"time"

	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Bounds of a breaker's settings. A value beyond them is a slip.
const (
	maxFailures = 1_000_000
	maxPause    = time.Hour
)

// readShare reads the field local_share of the file or of a policy.
func readShare(r *yamlfile.Reader, fields map[string]yamlfile.Value, byDefault store.Share) store.Share {
	if share, ok := yamlfile.Parsed(r, fields["local_share"], "local_share", "a share of each limit, such as 25%", store.ParseShare); ok {
		return share
	}
	return byDefault
}

// readBreaker reads the field breaker of the file.
func readBreaker(r *yamlfile.Reader, file map[string]yamlfile.Value) *store.Breaker {
	breaker := store.Breaker{}.WithDefaults()
	fields, _ := r.Fields(file["breaker"], "the breaker", breakerObject())
	if n, ok := readNumber(r, fields["failures"], 1, maxFailures); ok {
		breaker.Failures = int(n)
	}
	readPause(r, fields["slow"], &breaker.Slow)
	readPause(r, fields["pause"], &breaker.Pause)
	readPause(r, fields["max_pause"], &breaker.MaxPause)
	_, pauseGiven := fields["pause"]
	if e, given := fields["max_pause"]; breaker.MaxPause < breaker.Pause {
		if given && !r.HasMistake(e.Path) {
			r.Mistake(e, "max_pause is %s, less than the pause of %s", store.FormatPeriod(breaker.MaxPause),
				store.FormatPeriod(breaker.Pause))
		} else if pauseGiven && !given {
			breaker.MaxPause = breaker.Pause
		}
	}
	if e, given := fields["enabled"]; given && !r.Bool(e) {
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
