package admin

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/limitctl/limitctl/internal/subjecttext"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// MaxOverrides is the most overrides that can be in force in a store.
	MaxOverrides = 1000
	// OverrideIDSize is the number of characters in an ID, and OverrideVersionSize in a version.
	OverrideIDSize      = 8
	OverrideVersionSize = 32
	// maxOverrideSize is the most bytes of an override as text.
	maxOverrideSize = 16 << 10
	// changeTries is how often a change is tried again because another came first.
	changeTries = 200
)

// OverrideVersion returns a version that changes whenever an override is set or revoked, by one small read. It is empty
// if none is in force. The end of an override does not change it, unless it was the last.
func (t *Tables) OverrideVersion(ctx context.Context) (string, error) {
	return t.Value(ctx, OverrideTable, "")
}

// Overrides returns the overrides that have not ended, the newest first, and their version. If foreign values prevent
// reading some of them, it returns the others with a [store.ErrForeign] that names one.
func (t *Tables) Overrides(ctx context.Context) (overrides []store.Override, version string, err error) {
	found, version, now, err := t.inForce(ctx)
	if err != nil {
		return nil, "", err
	}
	for i := range found {
		o, wrong := readOverride(&found[i], now)
		if wrong != nil {
			err = errors.Join(err, wrong)
			continue
		}
		overrides = append(overrides, o)
	}
	if len(found) == 0 {
		version = ""
	}
	slices.SortFunc(overrides, func(a, b store.Override) int { return store.CompareAge(&a, &b) })
	return overrides, version, err
}

// inForce returns the records of the overrides that have not ended.
func (t *Tables) inForce(ctx context.Context) (found []TableRecord, version string, now store.Instant, err error) {
	found, now, err = t.Get(ctx, OverrideTable)
	at := slices.IndexFunc(found, func(r TableRecord) bool { return r.Name == "" })
	if err != nil || at < 0 { // those without a version are not in force
		return nil, "", now, err
	}
	if version = found[at].Value; version == "" {
		return nil, "", now, found[at].Foreign(foreignValue)
	}
	return slices.Delete(found, at, at+1), version, now, nil
}

// changeOverrides sets or drops one of the overrides in force, and tries again if another change came first. choose
// returns which one, "" for none, and what it becomes, nil to drop it.
func (t *Tables) changeOverrides(ctx context.Context, what string,
	choose func(inForce []TableRecord, now store.Instant) (id string, set *TableRecord, err error)) error {
	for range changeTries {
		inForce, version, now, err := t.inForce(ctx)
		if err != nil {
			return err
		}
		id, set, err := choose(inForce, now)
		if err != nil || id == "" {
			return err
		}
		c := &Change{Table: OverrideTable, What: what, Was: version, Drop: []string{id}}
		c.Rest = slices.DeleteFunc(inForce, func(r TableRecord) bool { return r.Name == id })
		last := store.Instant(0)
		if set != nil {
			c.Set, c.Drop, last = []TableRecord{*set}, nil, set.Ends
		}
		for i := range c.Rest {
			last = max(last, c.Rest[i].Ends)
		}
		if last > 0 {
			c.Set = append(c.Set, TableRecord{Value: randomHex(OverrideVersionSize), Created: now, Ends: last,
				Left: now.Until(last)})
		} else {
			c.Drop = append(c.Drop, "")
		}
		if done, err := t.Change(ctx, c); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: other changes come first", store.ErrRefused)
}

// SetOverride adds o for that time, in whole milliseconds, and returns it with its ID, CreatedAt and ExpiresAt. One in
// force that differs only in its times, reason and author keeps its ID and takes those of o. It is a [store.ErrRefused]
// if there are already [MaxOverrides]. After a [store.ErrOutcomeUnknown] it may have been set.
func (t *Tables) SetOverride(ctx context.Context, o store.Override, lasts time.Duration) (
	set store.Override, err error) {
	if err := o.Check(lasts); err != nil {
		return set, err
	}
	text, which, err := EncodeOverride(&o)
	if err != nil {
		return set, err
	}
	left := (lasts + time.Millisecond - 1).Truncate(time.Millisecond)
	err = t.changeOverrides(ctx, "override", func(inForce []TableRecord, now store.Instant) (
		string, *TableRecord, error) {
		r := TableRecord{Name: overrideID(inForce, text, which), Value: text, Created: now / 1000 * 1000, Left: left}
		r.Ends = r.Created + store.Instant(left.Microseconds())
		if len(inForce) >= MaxOverrides &&
			!slices.ContainsFunc(inForce, func(o TableRecord) bool { return o.Name == r.Name }) {
			return "", nil, fmt.Errorf("%w: %d overrides are in force, which is the most; revoke one", store.ErrRefused,
				MaxOverrides)
		}
		set, err = readOverride(&r, now)
		return r.Name, &r, err
	})
	if err != nil {
		return store.Override{}, err
	}
	return set, nil
}

// overrideID returns the ID of an override, a hash of its subjects and effect, so that the same override is found
// again. Once in a billion times another override has the same: then it is another hash.
func overrideID(inForce []TableRecord, text string, which int) string {
	for try := byte(0); ; try++ {
		sum := sha256.Sum256(append([]byte{try}, text[:which]...))
		id := base32.NewEncoding(overrideIDLetters).EncodeToString(sum[:5])
		at := slices.IndexFunc(inForce, func(r TableRecord) bool { return r.Name == id })
		if at < 0 {
			return id
		}
		if rest, same := strings.CutPrefix(inForce[at].Value, text[:which]); same && rest != "" &&
			strings.Contains(",}", rest[:1]) {
			return id
		}
	}
}

// RevokeOverride ends an override and returns it. It may not exist or have ended.
func (t *Tables) RevokeOverride(ctx context.Context, id string) (o store.Override, found bool, err error) {
	if !IsOverrideID(id) {
		return o, false, nil
	}
	err = t.changeOverrides(ctx, "revocation of an override",
		func(inForce []TableRecord, now store.Instant) (string, *TableRecord, error) {
			at := slices.IndexFunc(inForce, func(r TableRecord) bool { return r.Name == id })
			if found = at >= 0; !found {
				return "", nil, nil
			}
			o, err = readOverride(&inForce[at], now)
			return id, nil, err
		})
	if err != nil {
		return store.Override{}, false, err
	}
	return o, found, nil
}

// readOverride reads what a store holds of an override at now.
func readOverride(r *TableRecord, now store.Instant) (store.Override, error) {
	const longest = store.Instant(store.MaxOverrideTime / time.Microsecond)
	o, err := DecodeOverride([]byte(r.Value))
	switch {
	case err != nil || !IsOverrideID(r.Name):
		return store.Override{}, r.Foreign("a value that is not an override")
	case r.Created < 0 || r.Ends <= r.Created || r.Ends-r.Created > longest || r.Created-now > longest ||
		r.Ends > store.MaxInstant:
		return store.Override{}, r.Foreign("an override of an instant or a time that no override has")
	}
	o.ID, o.CreatedAt, o.ExpiresAt = r.Name, r.Created.Time(), r.Ends.Time()
	o.Left = time.Duration(max(0, r.Ends-now)) * time.Microsecond
	return o, nil
}

// overrideText is an override as JSON text. Reason and By come last: the text before them identifies the override.
type overrideText struct {
	Subject     string            `json:"subject,omitempty"`
	Name        string            `json:"name,omitempty"`
	Attributes  map[string]string `json:"attributes,omitempty"` // the form of values in subjects
	Effect      string            `json:"effect"`
	Limit       string            `json:"limit,omitempty"`
	Thousandths int64             `json:"thousandths,omitempty"`
	Units       int64             `json:"units,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	By          string            `json:"by,omitempty"`
}

// EncodeOverride checks o and returns its text, without the parts that a store adds, and how many bytes of it identify
// it: overrides that differ only in their times, reason and author have the same ones.
func EncodeOverride(o *store.Override) (text string, which int, err error) {
	if err := o.Check(store.MinOverrideTime); err != nil {
		return "", 0, err
	}
	w := overrideText{Subject: o.Subjects.String(), Name: o.Names.String(), Effect: o.Effect.String()}
	if len(o.Attributes) > 0 {
		w.Attributes = make(map[string]string, len(o.Attributes))
	}
	for name, value := range o.Attributes {
		w.Attributes[subjecttext.Escape(name)] = subjecttext.Escape(value)
	}
	switch o.Effect {
	case store.OverrideLimit:
		w.Limit = o.Limit.String()
	case store.OverrideTimes:
		w.Thousandths = o.Thousandths
	case store.OverrideAdd:
		w.Units = o.Units
	case store.OverrideBlock, store.OverrideExempt:
	}
	which = len(w.json()) - len("}")
	w.Reason, w.By = o.Reason, o.By
	if text = w.json(); len(text) > maxOverrideSize {
		err = store.Invalidf("an override of %d bytes; at most %d fit", len(text), maxOverrideSize)
	}
	return text, which, err
}

// json returns the text, without escapes for HTML.
func (w *overrideText) json() string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.Encode(w) // texts and numbers, which cannot fail
	return strings.TrimSuffix(text.String(), "\n")
}

// DecodeOverride reads the text of [EncodeOverride].
func DecodeOverride(text []byte) (o store.Override, err error) {
	var w overrideText
	if err := json.Unmarshal(text, &w); err != nil {
		return o, err
	}
	o = store.Override{Thousandths: w.Thousandths, Units: w.Units, Reason: w.Reason, By: w.By}
	if o.Effect, err = store.ParseOverrideEffect(w.Effect); err == nil && o.Effect == store.OverrideLimit {
		if o.Limit, err = store.ParseLimit(w.Limit); err == nil {
			o.Limit, err = o.Limit.Normalize()
		}
	}
	for into, text := range map[*store.Pattern]string{&o.Subjects: w.Subject, &o.Names: w.Name} {
		if err == nil && text != "" {
			*into, err = store.ParsePattern(text)
		}
	}
	for name, value := range w.Attributes {
		plainName, ok := subjecttext.Unescape(name)
		plain, ok2 := subjecttext.Unescape(value)
		if !ok || !ok2 {
			return o, errors.New("a damaged attribute")
		}
		if o.Attributes == nil {
			o.Attributes = map[string]string{}
		}
		o.Attributes[plainName] = plain
	}
	if err == nil {
		err = o.Check(store.MinOverrideTime)
	}
	return o, err
}

// overrideIDLetters leaves out letters that are easily confused.
const overrideIDLetters = "0123456789abcdefghjkmnpqrstvwxyz"

// IsOverrideID reports whether text has the form of an ID.
func IsOverrideID(text string) bool {
	return len(text) == OverrideIDSize && strings.Trim(text, overrideIDLetters) == ""
}
