package cli

import (
	"errors"
	"fmt"
	"math/big"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ErrNoInstant is returned for a text that is no instant.
var ErrNoInstant = errors.New("not a time")

// ParseInstant reads an instant, or a time of day: the next one after now if future, else the
// last one. Without a zone it is by the clock of this machine, which can skip it when summer begins.
func ParseInstant(text string, now time.Time, future bool) (instant time.Time, err error) {
	text = strings.TrimSpace(text)
	if instant, is := parseInstant(text, now, future); !is {
		return instant, ErrNoInstant
	} else if !instant.IsZero() {
		return instant, nil
	}
	return instant, fmt.Errorf("%q does not exist here, where clocks are set forward past it", text)
}

// parseInstant returns the zero time for one that the clock of this machine never shows.
func parseInstant(text string, now time.Time, future bool) (instant time.Time, is bool) {
	for _, layout := range []string{"15:04", "15:04:05", "15:04Z07:00", "15:04:05Z07:00"} {
		t, err := time.ParseInLocation(layout, text, now.Location())
		if err != nil {
			continue
		}
		if strings.HasSuffix(layout, "Z07:00") {
			now = now.In(t.Location())
		}
		at := func(days int) time.Time {
			return time.Date(now.Year(), now.Month(), now.Day()+days, t.Hour(), t.Minute(), t.Second(), 0, now.Location())
		}
		switch instant = at(0); {
		case future && !instant.After(now):
			instant = at(1)
		case !future && instant.After(now):
			instant = at(-1)
		}
		return unlessSkipped(instant, t), true
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02 15:04:05",
		"2006-01-02T15:04", "2006-01-02 15:04"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			shown, _ := time.Parse(layout, text)
			return unlessSkipped(t, shown), true
		}
	}
	return time.Time{}, false
}

// unlessSkipped returns t if its clock shows the time of day that was asked for, else the zero time.
func unlessSkipped(t, asked time.Time) time.Time {
	if t.Hour() != asked.Hour() || t.Minute() != asked.Minute() {
		return time.Time{}
	}
	return t
}

// ParseShare reads a share such as "80%" or "0.8", and tells whether it was a percentage.
func ParseShare(text string) (share float64, percent, ok bool) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	decimal, ok := store.ParseDecimal(number)
	if !ok {
		return 0, percent, false
	}
	if share, _ = decimal.Float64(); percent {
		share /= 100
	}
	return share, percent, true
}

// ParseOnError reads the value of --on-error. The default share is that of the limits' policy,
// which may be nil, else that of the configuration.
func ParseOnError(g *Globals, onError string, p *policy.Policy) (f layers.Failure, err error) {
	word, share, hasShare := strings.Cut(onError, "=")
	isLocal := word == store.LocalOnError.String()
	switch {
	case onError == "":
		return f, nil
	case isLocal && hasShare:
		f.Share, err = store.ParseShare(share)
	case isLocal && p != nil:
		f.Share = p.LocalShare
	case isLocal:
		c, err := g.Config()
		if err != nil {
			return f, err
		}
		f.Share = c.LocalShare
	default: // "allow=20%" is no policy
		word = onError
	}
	if err == nil {
		f.Policy, err = store.ParseFailurePolicy(word)
	}
	if err != nil {
		return f, Usagef("--on-error: %s", err)
	}
	return f, nil
}

// ParseSubjects reads a PATTERN; exact takes it as a subject.
func ParseSubjects(text string, exact bool) (store.Pattern, error) {
	if exact {
		return store.ExactPattern(text)
	}
	if before, address, is := addressWithTooManyBits(text); is {
		return store.Pattern{}, Usagef("%q is no network: %s has %d bits; write it like %s%s/%d, or give --exact for that subject",
			text, address, address.BitLen(), before, address, address.BitLen()-8)
	}
	return store.ParsePattern(text)
}

// addressWithTooManyBits takes apart what looks like a network and is none, such as ip:203.0.113.9/33. It would match no
// address, so that a block of it denies nobody.
func addressWithTooManyBits(text string) (before string, address netip.Addr, is bool) {
	end := strings.LastIndexByte(text, '/')
	if end < 0 || text[end+1:] == "" || strings.Trim(text[end+1:], "0123456789") != "" {
		return "", address, false
	}
	for at := 0; at <= end; {
		if address, err := netip.ParseAddr(text[at:end]); err == nil {
			bits, _ := strconv.Atoi(text[end+1:]) // one that is too large for an int becomes the largest int
			_, err := address.Prefix(bits)
			return text[:at], address, err != nil
		}
		next := strings.IndexByte(text[at:end], ':')
		if next < 0 {
			break
		}
		at += next + 1
	}
	return "", address, false
}

// ParseTimes reads a factor such as 3, 2.5 or 0.5, in thousandths.
func ParseTimes(text string) (thousandths int64, err error) {
	factor, ok := store.ParseDecimal(strings.TrimSpace(text))
	if ok {
		factor.Mul(factor, big.NewRat(1000, 1))
	}
	if !ok || !factor.IsInt() || factor.Sign() == 0 || factor.Cmp(big.NewRat(store.MaxOverrideThousandths, 1)) > 0 {
		return 0, Usagef("--times %q is not a factor from 0.001 to 1000000 with at most three decimals; write it like 3, 2.5 or 0.5", text)
	}
	return factor.Num().Int64(), nil
}

// parseMinUsed reads a share of the limit such as "80%" or "0.8".
func parseMinUsed(text string) (float64, error) {
	share, percent, ok := ParseShare(text)
	if !ok || share > 1000 {
		return 0, Usagef("--min-used %q is not a share; write it like 80%% or 0.8", text)
	}
	if share > 1 && !percent { // 80 for 80% would find nothing, and look like good news
		return 0, Usagef("--min-used %s would be %s times the limit; write it like 80%% or 0.8", text, strings.TrimSpace(text))
	}
	return share, nil
}
