package configfile

import (
	"cmp"
	"time"

	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// amountFields are the fields of a limit or an override that say how much is allowed.
func amountFields() []string { return []string{"limit", "algorithm", "burst", "slices"} }

// readAmount reads how much is allowed. Missing fields keep the values of base; known says whether base is valid,
// and ok whether the result is.
func readAmount(r *yamlfile.Reader, fields map[string]yamlfile.Value, base store.Limit, known bool) (
	amount store.Limit, ok bool) {
	algorithm, ok := readAlgorithm(r, fields)
	own, read := readLimitText(r, fields, cmp.Or(algorithm, base.Algorithm))
	ok = ok && read && known
	switch {
	case algorithm != 0 && own.Algorithm != 0:
		r.Mistake(fields["algorithm"], "the algorithm is given twice: as %s in the limit, and here; keep one",
			own.Algorithm)
		ok = false
	case algorithm != 0:
		own.Algorithm = algorithm
	}
	for _, option := range []struct {
		name string
		to   *int64
		most int64
	}{{"burst", &own.Burst, store.MaxCount}, {"slices", &own.Slices, store.MaxSlices}} {
		v, given := fields[option.name]
		if !given {
			continue
		}
		switch n, read := readNumber(r, v, 1, option.most); {
		case !read:
			ok = false
		case *option.to != 0:
			r.Mistake(v, "%s is given twice: as %d in the limit, and here; keep one", option.name, *option.to)
			ok = false
		default:
			*option.to = n
		}
	}
	amount = over(base, own)
	if !ok {
		return amount, false
	}
	if _, err := amount.Normalize(); err != nil {
		v := fields["limit"]
		for _, name := range amountFields() {
			if later, given := fields[name]; given {
				v = later
			}
		}
		r.Mistake(v, "%s", err)
		return amount, false
	}
	return amount, true
}

// readLimitText reads the field limit. What it leaves out stays zero. algorithm is for a text that names none, 0 if
// it is unknown.
func readLimitText(r *yamlfile.Reader, fields map[string]yamlfile.Value, algorithm store.Algorithm) (
	limit store.Limit, ok bool) {
	if _, given := fields["limit"]; !given {
		return store.Limit{}, true
	}
	return yamlfile.Parsed(r, fields["limit"], "limit", "COUNT/PERIOD, such as 10/1m",
		func(text string) (store.Limit, error) {
			limit, err := store.ParseLimit(text)
			if err != nil && algorithm != 0 { // its slices may belong to the algorithm
				limit, err = store.ParseLimitAs(text, algorithm)
				limit.Algorithm = 0
			}
			if err == nil {
				err = limit.CheckStored()
			}
			return limit, err
		})
}

// over returns own with what it leaves out as in base, but no burst and slices that its algorithm cannot have.
func over(base, own store.Limit) store.Limit {
	amount := own
	if own.Count == 0 {
		amount = base
	}
	amount.Algorithm = cmp.Or(own.Algorithm, base.Algorithm)
	if amount.Burst = own.Burst; own.Burst == 0 && amount.Algorithm.HasBurst() {
		amount.Burst = base.Burst
	}
	if amount.Slices = own.Slices; own.Slices == 0 && amount.Algorithm.HasSlices() {
		amount.Slices = base.Slices
	}
	return amount
}

// readAlgorithm reads the field algorithm; 0 means that it is missing, or has a mistake.
func readAlgorithm(r *yamlfile.Reader, fields map[string]yamlfile.Value) (algorithm store.Algorithm, ok bool) {
	if _, given := fields["algorithm"]; !given {
		return 0, true
	}
	return yamlfile.Parsed(r, fields["algorithm"], "algorithm", "the name of one, such as sliding-log",
		store.ParseAlgorithm)
}

// readNumber reads a whole number. It refuses 0200, which other readers of YAML take for 128.
func readNumber(r *yamlfile.Reader, v yamlfile.Value, least, most int64) (int64, bool) {
	text, ok := r.Text(v, v.Name, "a whole number")
	if !ok {
		return 0, false
	}
	n, err := store.ParseNumber(v.Name, text, least, most)
	switch {
	case len(text) > 1 && text[0] == '0':
		r.Mistake(v, "%s is %q; it must be a whole number, such as 200", v.Name, text)
	case err != nil:
		r.Mistake(v, "%s", err)
	default:
		return n, true
	}
	return 0, false
}

// Bounds of a breaker's settings. A value beyond them is a slip.
const (
	maxFailures = 1_000_000
	maxPause    = time.Hour
)

// readShare reads the field local_share of the file or of a policy.
func readShare(r *yamlfile.Reader, fields map[string]yamlfile.Value, byDefault store.Share) store.Share {
	if share, ok := yamlfile.Parsed(r, fields["local_share"], "local_share", "a share of each limit, such as 25%",
		store.ParseShare); ok {
		return share
	}
	return byDefault
}

// readBreaker reads the field breaker of the file.
func readBreaker(r *yamlfile.Reader, file map[string]yamlfile.Value) *store.Breaker {
	breaker := store.Breaker{}.WithDefaults()
	fields, _ := r.Fields(file["breaker"], "the breaker", Fields("breaker"))
	if n, ok := readNumber(r, fields["failures"], 1, maxFailures); ok {
		breaker.Failures = int(n)
	}
	readDuration(r, fields["slow"], maxPause, &breaker.Slow)
	readDuration(r, fields["pause"], maxPause, &breaker.Pause)
	readDuration(r, fields["max_pause"], maxPause, &breaker.MaxPause)
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

// readDuration reads a duration from 1ms to most.
func readDuration(r *yamlfile.Reader, v yamlfile.Value, most time.Duration, to *time.Duration) {
	text, ok := r.Text(v, v.Name, "a duration, such as 500ms")
	if !ok {
		return
	}
	if d, err := store.ParsePeriod(text); err == nil && d >= time.Millisecond && d <= most {
		*to = d
		return
	}
	r.Mistake(v, "%s is %q; it must be a duration from 1ms to %s, such as 500ms", v.Name, text,
		store.FormatPeriod(most))
}
