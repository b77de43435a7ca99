package override

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/cmd/internal/config"
	"github.com/limitctl/limitctl/internal/overridetable"
	"github.com/limitctl/limitctl/internal/yamlfile"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// wantedFile is a file of overrides.
type wantedFile struct {
	owner string
	// overrides have their ends in ExpiresAt.
	overrides []store.Override
}

// wantedObject is the map of the file, and overrideObject that of one override. Their fields are those of JSON.
func wantedObject() *yamlfile.Object {
	return &yamlfile.Object{Fields: []yamlfile.Field{
		{Name: "owner", About: "A name for whoever keeps these overrides, so that --prune ends no others.", Required: true},
		{Name: "overrides", About: "The list of overrides that are to be in force.", Required: true},
	}}
}

func overrideObject() *yamlfile.Object {
	return &yamlfile.Object{Fields: []yamlfile.Field{
		{Name: "subject", About: "A pattern of subjects."},
		{Name: "attributes", About: "The attributes that a key must have."},
		{Name: "name", About: "A pattern of limits."},
		{Name: "effect", About: "One of times, add, limit, block and exempt.", Required: true},
		{Name: "factor", About: "The factor of times."},
		{Name: "units", About: "The units of add."},
		{Name: "limit", About: "The limit of limit."},
		{Name: "reason", About: "Why, for those who find the override.", Required: true},
		{Name: "expires_at", About: "When it ends, such as 2026-11-22T04:00:00Z.", Required: true},
	}}
}

// readWanted reads a file of overrides; path "-" is standard input. An error is a [config.Mistakes], or a usage error.
func readWanted(env *cli.Env, path string) (*wantedFile, error) {
	var data []byte
	var err error
	if path == "-" {
		if data, err = io.ReadAll(io.LimitReader(env.In, yamlfile.MaxSize+1)); err != nil {
			return nil, fmt.Errorf("the standard input cannot be read: %w", err)
		}
		path = "stdin"
	} else if data, err = env.ReadFile(path, yamlfile.MaxSize); err != nil {
		return nil, cli.Usagef("the file %s cannot be read: %s", path, cli.Cause(err))
	}
	file := &wantedFile{}
	r, root, ok := yamlfile.Parse(path, data, yamlfile.Options{Holds: "owner and overrides",
		Mask: func(lines []string) []string { return lines }})
	if ok {
		file.read(r, root)
	}
	if mistakes := r.Mistakes(); len(mistakes) > 0 {
		return nil, &config.Mistakes{List: mistakes}
	}
	return file, nil
}

func (f *wantedFile) read(r *yamlfile.Reader, root yamlfile.Value) {
	fields, ok := r.Fields(root, "the file", wantedObject())
	if !ok {
		return
	}
	if v, given := fields["owner"]; given {
		f.owner, _ = r.Text(v, "owner", "a name")
		if err := (&store.Override{Effect: store.OverrideBlock, Owner: f.owner}).Check(store.MinOverrideTime); err != nil {
			r.Mistake(v, "%s", err)
		}
	}
	list, given := fields["overrides"]
	if !given {
		return
	}
	values, _ := r.List(list, "overrides", "a list, which is [] for none")
	if len(values) > admin.MaxOverrides {
		r.Mistake(list, "there are %d overrides; at most %d can be in force", len(values), admin.MaxOverrides)
		return
	}
	lines := map[string]int{} // by what the override is
	for _, v := range values {
		o, ok := readOverride(r, v)
		if !ok {
			continue
		}
		if _, err := overridetable.Encode(&o, store.MinOverrideTime); err != nil {
			r.Mistake(v, "%s", err)
			continue
		}
		identity := overridetable.Identity(&o)
		if line := lines[identity]; line > 0 {
			r.Mistake(v, "the override of line %d is given again; keep one", line)
			continue
		}
		lines[identity] = r.Line(v)
		f.overrides = append(f.overrides, o)
	}
}

// readOverride reads one override.
func readOverride(r *yamlfile.Reader, v yamlfile.Value) (o store.Override, ok bool) {
	fields, ok := r.Fields(v, "the override", overrideObject())
	if !ok {
		return o, false
	}
	for name, field := range fields {
		if r.IsEmpty(field) { // null, as in JSON of what is in force
			delete(fields, name)
		}
	}
	readWhom(r, v, fields, &o)
	readEffect(r, v, fields, &o)
	if e, given := fields["reason"]; given {
		o.Reason, _ = r.Text(e, "reason", "a text")
		o.Reason = strings.TrimSpace(o.Reason)
	}
	if e, given := fields["expires_at"]; given {
		if text, is := r.Text(e, "expires_at", "an instant"); is {
			var err error
			if o.ExpiresAt, err = time.Parse(time.RFC3339, text); err != nil {
				r.Mistake(e, "expires_at %q is not an instant; write it like 2026-11-22T04:00:00Z", text)
			}
		}
	}
	for _, name := range []string{"effect", "reason", "expires_at"} {
		if _, given := fields[name]; !given && !r.HasMistakeWithin(v.Path) { // it is there and empty
			r.Mistake(v, "the override has an empty %s", name)
		}
	}
	return o, !r.HasMistakeWithin(v.Path)
}

// readWhom reads for which keys an override is.
func readWhom(r *yamlfile.Reader, v yamlfile.Value, fields map[string]yamlfile.Value, o *store.Override) {
	subject, hasSubject := fields["subject"]
	attributes, hasAttributes := fields["attributes"]
	if !hasSubject && !hasAttributes {
		r.Mistake(v, "the override says not for whom it is; give a subject or attributes, or subject: '*' for all")
		return
	}
	var err error
	if text, is := textOf(r, subject, hasSubject, "a pattern, such as tenant:acme:*"); is {
		if what, instead := mistaken(text); what != "" {
			r.Mistake(subject, "%s is %s, and subjects begin with a name; write %s", text, what, instead)
		} else if o.Subjects, err = cli.ParseSubjects(text, false); err != nil {
			r.Mistake(subject, "%s", err)
		}
	}
	if hasAttributes {
		for _, e := range r.Named(attributes, "attributes", "a map, such as tenant: acme", func(name string) error {
			return policy.ValidateName("attribute", name)
		}) {
			value, is := r.Text(e, e.Name, "a text")
			if is && isPatternValue(value) {
				r.Mistake(e, "an attribute is taken as it is, so %q is no pattern; write subject: '%s:%s' instead", value, e.Name, value)
			}
			if o.Attributes == nil {
				o.Attributes = map[string]string{}
			}
			o.Attributes[e.Name] = value
		}
		if len(o.Attributes) == 0 && !r.HasMistakeWithin(attributes.Path) {
			r.Mistake(attributes, "attributes names none; give one, or leave it out")
		}
	}
	name, hasName := fields["name"]
	if text, is := textOf(r, name, hasName, "a pattern, such as api/*"); is && text != "*" { // as JSON writes that it is for all
		if o.Names, err = store.ParsePattern(text); err != nil {
			r.Mistake(name, "%s", err)
		}
	}
}

// effectFields are the fields that say how much, by the effect that has them.
var effectFields = map[store.OverrideEffect]string{store.OverrideTimes: "factor", store.OverrideAdd: "units", store.OverrideLimit: "limit"}

// readEffect reads what an override does.
func readEffect(r *yamlfile.Reader, v yamlfile.Value, fields map[string]yamlfile.Value, o *store.Override) {
	effect, given := fields["effect"]
	word, is := textOf(r, effect, given, "times, add, limit, block or exempt")
	if !is {
		return
	}
	var err error
	if o.Effect, err = store.ParseOverrideEffect(word); err != nil {
		r.Mistake(effect, "%s", err)
		return
	}
	of := effectFields[o.Effect]
	for _, name := range effectFields {
		if e, given := fields[name]; given && name != of {
			r.MistakeAtKey(e, "the effect %s has no %s", word, name)
		}
	}
	if of == "" {
		return
	}
	e, given := fields[of]
	if !given {
		r.Mistake(v, "the effect %s needs a %s", word, of)
		return
	}
	text, is := r.Text(e, of, "a number")
	if !is {
		return
	}
	switch o.Effect {
	case store.OverrideTimes:
		if o.Thousandths, err = cli.ParseTimes(text); err != nil {
			r.Mistake(e, "factor %q is not a number from 0.001 to 1000000 with at most three decimals", text)
		}
	case store.OverrideAdd:
		o.Units, err = strconv.ParseInt(text, 10, 64)
		if err != nil || o.Units == 0 || o.Units > store.MaxCount || o.Units < -store.MaxCount {
			r.Mistake(e, "units %q is not a number from 1 to %d, or below 0 to take units away", text, int64(store.MaxCount))
		}
	case store.OverrideLimit:
		if o.Limit, err = store.ParseLimit(text); err != nil {
			r.Mistake(e, "%s", err)
		} else if !strings.Contains(text, ":") { // it would depend on the configuration of who applies it
			r.Mistake(e, "the limit names no algorithm; write it like %s:%s", store.TokenBucket, text)
		} else {
			o.Limit, _ = o.Limit.Normalize()
		}
	case store.OverrideBlock, store.OverrideExempt:
	}
}

// textOf reads a field that may be left out.
func textOf(r *yamlfile.Reader, v yamlfile.Value, given bool, want string) (string, bool) {
	if !given {
		return "", false
	}
	return r.Text(v, v.Name, want)
}
