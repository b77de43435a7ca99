package change

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// form is where an override of one key is typed in.
type form struct {
	of      *live.Row
	chosen  int  // of choices
	all     bool // limits of the subject, and not this one alone
	field   int  // that is typed in
	inputs  [texts]textinput.Model
	typedIn [texts]bool // else the first character replaces what was proposed
	problem string
}

type choice struct {
	effect  store.OverrideEffect
	word    string
	value   string // what its value is called; empty if it has none
	example string
}

var choices = []choice{
	{store.OverrideTimes, "multiply by", "by", "3"},
	{store.OverrideAdd, "add", "units", "100"},
	{store.OverrideLimit, "limit", "to", "600/1m"},
	{store.OverrideBlock, "block", "", ""},
	{store.OverrideExempt, "exempt", "", ""},
}

// The fields of the form. Those before texts hold texts.
const (
	valueField = iota
	whomField
	forField
	reasonField
	texts
	effectField = texts
	aboutField  = texts + 1
)

// newForm returns the form for a key. A block and an exemption are of all limits, unless that is changed.
func newForm(of *live.Row, effect store.OverrideEffect) *form {
	f := &form{of: of, field: effectField, all: effect == store.OverrideBlock || effect == store.OverrideExempt}
	f.chosen = max(0, slices.IndexFunc(choices, func(c choice) bool { return c.effect == effect }))
	for i := range f.inputs {
		f.inputs[i] = ui.NewInput()
	}
	f.inputs[valueField].SetValue(choices[f.chosen].example)
	f.inputs[whomField].SetValue(store.EscapeGlob(of.Key.Subject))
	f.inputs[forField].SetValue("2h")
	return f
}

// fields are those that the chosen effect has, in the order of the screen.
func (f *form) fields() []int {
	fields := []int{effectField, valueField, whomField, aboutField, forField, reasonField}
	if choices[f.chosen].value == "" {
		fields = slices.Delete(fields, 1, 2)
	}
	return fields
}

func (f *form) fill(m *Model, msg tea.KeyMsg) tea.Cmd {
	fields := f.fields()
	at := max(0, slices.Index(fields, f.field))
	switch msg.Type {
	case tea.KeyEsc:
		m.form = nil
		m.say("nothing was changed")
		return nil
	case tea.KeyTab, tea.KeyDown:
		f.field = fields[(at+1)%len(fields)]
	case tea.KeyShiftTab, tea.KeyUp:
		f.field = fields[(at+len(fields)-1)%len(fields)]
	case tea.KeyEnter:
		if at+1 == len(fields) {
			return f.submit(m)
		}
		f.field = fields[at+1]
	default:
		f.problem = ""
		f.typed(msg)
	}
	for i := range f.inputs {
		if f.inputs[i].Blur(); i == f.field {
			f.inputs[i].Focus()
		}
	}
	return nil
}

func (f *form) typed(msg tea.KeyMsg) {
	step := 1
	if msg.Type == tea.KeyLeft {
		step = len(choices) - 1
	}
	switch {
	case f.field < texts:
		if msg.Type == tea.KeyRunes && !f.typedIn[f.field] && f.field != whomField {
			f.inputs[f.field].SetValue("")
		}
		f.typedIn[f.field] = true
		f.inputs[f.field], _ = f.inputs[f.field].Update(msg)
	case f.field == aboutField && msg.Type != tea.KeyRunes:
		f.all = !f.all
	case f.field == effectField && msg.Type != tea.KeyRunes:
		before := choices[f.chosen]
		if f.chosen = (f.chosen + step) % len(choices); f.inputs[valueField].Value() == before.example {
			f.inputs[valueField].SetValue(choices[f.chosen].example)
		}
	}
}

// submit asks for what was typed in, unless something is wrong with it.
func (f *form) submit(m *Model) tea.Cmd {
	text := func(field int) string { return strings.TrimSpace(f.inputs[field].Value()) }
	wanted, lasts, err := m.feed.Actions.ParseOverride(live.OverrideForm{Effect: choices[f.chosen].effect,
		Value: text(valueField), For: text(forField), Reason: text(reasonField)})
	if err == nil {
		wanted.Subjects, err = f.whom(m.feed.Actions.ParseSubjects)
	}
	if was := &f.of.Limit; wanted.Effect == store.OverrideLimit && wanted.Limit.Algorithm.HasBurst() &&
		!strings.Contains(text(valueField), "burst=") && f.of.Override == nil && was.Algorithm.HasBurst() &&
		was.Capacity() != was.Count {
		wanted.Limit.Burst = was.Capacity() // as override set keeps it
	}
	limits := ", all its limits"
	if err == nil && !f.all {
		limits = " " + output.Printable(f.of.Key.Name)
		wanted.Names, err = store.ExactPattern(f.of.Key.Name)
	}
	if err != nil {
		f.problem = live.OneLine(err)
		return nil
	}
	m.form = nil
	lines := []string{output.Printable(allowance.Pattern(wanted.Subjects)) + limits}
	lines = append(lines, f.alsoUnder(m, &wanted)...)
	ends := ui.Until(m.feed.Clock.Add(lasts), m.feed.Clock)
	lines = append(lines, f.effect(wanted), "", "It ends by itself at "+ends+".")
	if wanted.Reason != "" {
		lines = append(lines, "Reason: "+output.Printable(wanted.Reason))
	}
	if o := f.of.Override; o != nil {
		lines = append(lines, "In force now: "+allowance.Effect(o)+" until "+ui.Until(o.ExpiresAt, m.feed.Clock)+".")
	}
	return m.ask("Set this override for "+output.Duration(lasts), lines, func() done {
		set, err := m.feed.Actions.SetOverride(m.ctx, wanted, lasts)
		return func(m *Model) (string, error) {
			return fmt.Sprintf("set: %s until %s; services follow within about a second", allowance.Effect(&set),
				ui.Until(set.ExpiresAt, m.feed.Clock)), err
		}
	})
}

// whom reads whom an override is about: exactly the subject under the cursor, or the pattern that was made of it.
func (f *form) whom(parse func(pattern string) (store.Pattern, error)) (p store.Pattern, err error) {
	text := f.inputs[whomField].Value()
	if text == store.EscapeGlob(f.of.Key.Subject) {
		return store.ExactPattern(f.of.Key.Subject)
	}
	if p, err = parse(strings.TrimSpace(text)); err == nil && strings.Trim(p.String(), "*") == "" {
		err = errors.New("it is about every subject; `limitctl override set` can do that")
	}
	return p, err
}

// alsoUnder says which other followed keys an override is about, and whether it leaves the one of the form out.
func (f *form) alsoUnder(m *Model, o *store.Override) (lines []string) {
	others := 0
	for _, r := range m.feed.Rows {
		if r != f.of && o.Matches(r.Key) {
			others++
		}
	}
	if !o.Matches(f.of.Key) {
		lines = append(lines, "It is NOT about "+output.Printable(f.of.Key.String())+".")
	}
	if others > 0 {
		lines = append(lines, "It is about "+output.Count(others, "other key")+" that are followed.")
	}
	return ui.Wrapped(lines, m.width-border)
}

// effect says what the override does to the key of the form.
func (f *form) effect(o store.Override) string {
	r := f.of
	o.CreatedAt = time.Unix(1<<40, 0) // the newest
	if r.Override != nil {
		if first := store.NewOverrideList([]store.Override{*r.Override, o}).For(r.Key); first.ID == r.Override.ID {
			return "Nothing changes here, since what is in force now comes first."
		}
	}
	switch {
	case o.Effect == store.OverrideBlock:
		return "Everything is denied, and nothing is charged."
	case o.Effect == store.OverrideExempt:
		return "Nothing is denied, and all is counted."
	case !r.Found() || r.Override != nil && o.Effect != store.OverrideLimit:
		return allowance.Effect(&o) + " of the limit that is configured"
	}
	return r.Limit.String() + " becomes " + o.Apply(r.Limit).String()
}

// lines draws the form, of which those fields are shown for which there is room around the current one.
func (f *form) lines(t *ui.Theme, height, columns int) []string {
	const (
		label  = 8
		around = 2 // the title and the keys
	)
	var problem []string
	if f.problem != "" {
		problem = ui.Wrapped([]string{f.problem}, columns)
	}
	fields := f.fields()
	if room := max(1, height-around-len(problem)); len(fields) > room {
		first := max(0, min(slices.Index(fields, f.field)-room/2, len(fields)-room))
		fields = fields[first : first+room]
	}
	does := map[store.OverrideEffect]string{store.OverrideBlock: "Block ", store.OverrideExempt: "Exempt "}
	title := cmp.Or(does[choices[f.chosen].effect], "Override ")
	lines := []string{t.Bold.Of(title + output.Printable(f.of.Key.String()))}
	about := map[bool]string{true: "‹ all limits of whom ›", false: "‹ this limit ›"}[f.all]
	for _, field := range fields {
		named, typed := t.Faint, t.Plain
		if field == f.field {
			named, typed = t.Accent, t.Accent
		}
		name := map[int]string{effectField: "do", valueField: choices[f.chosen].value, whomField: "whom",
			aboutField: "about", forField: "for", reasonField: "why"}[field]
		line := ui.Pad(named.Of(name), label)
		switch {
		case field >= texts:
			line += typed.Of(cmp.Or(map[int]string{aboutField: about}[field], "‹ "+choices[f.chosen].word+" ›"))
		case field == f.field:
			line += t.Typed(&f.inputs[field])
		default:
			line += t.Plain.Of(f.inputs[field].Value())
		}
		lines = append(lines, line)
	}
	for _, part := range problem {
		lines = append(lines, t.Near.Of(part))
	}
	keys := ""
	for _, key := range [][2]string{{"↑↓", " field  "}, {"←→", " choose  "}, {"enter", " next  "}, {"esc", " leave"}} {
		keys += t.Bold.Of(key[0]) + t.Faint.Of(key[1])
	}
	return append(lines, keys)
}
