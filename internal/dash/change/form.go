package change

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/allowance"
	"github.com/limitctl/limitctl/internal/dash/live"
	"github.com/limitctl/limitctl/internal/dash/ui"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// form is where an override of one key is typed in, or how one in force is to change.
type form struct {
	title    string
	of       *live.Row       // nil if the form is about an override alone
	override *store.Override // the one in force, nil if there is none
	choices  []choice
	chosen   int  // of choices
	all      bool // limits of the subject, and not this one alone
	field    int  // that is typed in
	inputs   [valueFields]textinput.Model
	problem  string
}

// choice is something that the form can do.
type choice struct {
	effect  store.OverrideEffect
	word    string
	example string // of its value; empty if it has none
	revokes bool   // it ends the override that is in force
	extends bool   // it gives that one a later end
}

// The fields of the form, in their order. Those before valueFields hold texts.
const (
	valueField = iota
	whomField
	forField
	reasonField
	valueFields
	effectField = valueFields
	aboutField  = valueFields + 1
)

// formOrder is the order of the fields on the screen.
func formOrder() []int {
	return []int{effectField, valueField, whomField, aboutField, forField, reasonField}
}

// askEffect opens the form for the current key, with the effect already chosen. A block and an exemption apply to all
// limits, and the user can type another subject or pattern.
func (m *Model) askEffect(effect store.OverrideEffect) tea.Cmd {
	r := m.Current()
	if r == nil || m.isBusy() {
		return nil
	}
	if !m.feed.Overrides.Kept() {
		m.say("this store keeps no overrides")
		return nil
	}
	f := &form{title: "Override " + output.Printable(r.Key.String()), of: r, override: r.Override, choices: []choice{
		{effect: store.OverrideTimes, word: "multiply by", example: "3"},
		{effect: store.OverrideAdd, word: "add", example: "100"},
		{effect: store.OverrideLimit, word: "limit", example: "600/1m"},
		{effect: store.OverrideBlock, word: "block"},
		{effect: store.OverrideExempt, word: "exempt"},
	}}
	f.chosen = slices.IndexFunc(f.choices, func(c choice) bool { return c.effect == effect })
	f.all = effect == store.OverrideBlock || effect == store.OverrideExempt
	if r.Override != nil {
		f.choices = append(f.choices, choice{word: "end " + allowance.Effect(r.Override), revokes: true})
	}
	m.form = f.open()
	return nil
}

// open fills a form with what is usual, and puts the cursor on its first field.
func (f *form) open() *form {
	for i := range f.inputs {
		f.inputs[i] = ui.NewInput()
	}
	f.inputs[valueField].SetValue(f.choices[f.chosen].example)
	f.inputs[forField].SetValue("2h")
	f.field = f.fields()[0]
	if f.of != nil {
		f.inputs[whomField].SetValue(store.EscapeGlob(f.of.Key.Subject))
	}
	f.focus()
	return f
}

// fields are those that the chosen effect has.
func (f *form) fields() (fields []int) {
	for _, field := range formOrder() {
		c := &f.choices[f.chosen]
		switch {
		case field == effectField && len(f.choices) == 1, field == valueField && c.example == "",
			(field == aboutField || field == whomField) && (c.revokes || c.extends), field == forField && c.revokes:
		default:
			fields = append(fields, field)
		}
	}
	return fields
}

// fill takes a key that is pressed at the form.
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
		if at+1 < len(fields) {
			f.field = fields[at+1]
			break
		}
		return f.submit(m)
	default:
		f.problem = ""
		f.typed(msg)
	}
	f.focus()
	return nil
}

// focus gives the keys to the current field.
func (f *form) focus() {
	for i := range f.inputs {
		if f.inputs[i].Blur(); i == f.field {
			f.inputs[i].Focus()
			f.inputs[i].CursorEnd()
		}
	}
}

// typed takes a key that is typed into the current field.
func (f *form) typed(msg tea.KeyMsg) {
	step := 1
	if msg.Type == tea.KeyLeft {
		step = -1
	}
	switch {
	case f.field < valueFields:
		f.inputs[f.field], _ = f.inputs[f.field].Update(msg)
	case f.field == aboutField && (msg.Type == tea.KeyLeft || msg.Type == tea.KeyRight || msg.Type == tea.KeySpace):
		f.all = !f.all
	case f.field == effectField:
		before := f.choices[f.chosen]
		chosen := f.chosen
		f.chosen = (f.chosen + step + len(f.choices)) % len(f.choices)
		if msg.Type == tea.KeyRunes && msg.String() != " " { // by its first letter
			f.chosen = slices.IndexFunc(f.choices, func(c choice) bool { return strings.HasPrefix(c.word, msg.String()) })
			if f.chosen < 0 {
				f.chosen = chosen
			}
		}
		if f.inputs[valueField].Value() == before.example {
			f.inputs[valueField].SetValue(f.choices[f.chosen].example)
		}
	}
}

// Revoke asks for the end of an override in force.
func (m *Model) Revoke(o *store.Override) tea.Cmd {
	return m.changeOf(o, choice{word: "revoke", revokes: true})
}

// Extend asks for a later end of an override in force.
func (m *Model) Extend(o *store.Override) tea.Cmd {
	return m.changeOf(o, choice{word: "extend", extends: true})
}

func (m *Model) changeOf(o *store.Override, c choice) tea.Cmd {
	if !m.isBusy() {
		about := *o
		m.form = (&form{title: strings.ToUpper(c.word[:1]) + c.word[1:] + " " + output.Printable(allowance.All(o)), override: &about,
			choices: []choice{c}}).open()
	}
	return nil
}

// submit asks for what was typed in, unless something is wrong with it.
func (f *form) submit(m *Model) tea.Cmd {
	c, r := &f.choices[f.chosen], f.of
	reason := strings.TrimSpace(f.inputs[reasonField].Value())
	if c.extends {
		return f.submitExtension(m, reason)
	}
	if c.revokes {
		m.form = nil
		ended := *f.override
		return m.ask("End this override", ui.Override(&ended, m.feed.Clock), func() tea.Msg {
			return overrideDone{override: ended, ended: true, err: m.feed.Actions.RevokeOverride(m.ctx, ended.ID, reason)}
		})
	}
	wanted, lasts, err := m.feed.Actions.ParseOverride(live.OverrideForm{Effect: c.effect,
		Value: strings.TrimSpace(f.inputs[valueField].Value()), For: strings.TrimSpace(f.inputs[forField].Value()), Reason: reason})
	if err == nil {
		wanted.Subjects, err = f.whom(m.feed.Actions.ParseSubjects)
	}
	if err == nil && !f.all {
		wanted.Names, err = store.ExactPattern(r.Key.Name)
	}
	if err != nil {
		f.problem = live.OneLine(err)
		return nil
	}
	m.form = nil
	about := output.Printable(allowance.Pattern(wanted.Subjects)) + " " + output.Printable(r.Key.Name)
	if f.all {
		about = output.Printable(allowance.Pattern(wanted.Subjects)) + ", all its limits"
	}
	lines := append([]string{about}, alsoUnder(m, r, &wanted)...)
	lines = append(lines, effectOn(r, &wanted), "", "It ends by itself at "+ui.Until(m.feed.Clock.Add(lasts), m.feed.Clock)+".")
	if reason != "" {
		lines = append(lines, "Reason: "+output.Printable(reason))
	}
	if o := f.override; o != nil {
		lines = append(lines, "In force now: "+allowance.Effect(o)+" until "+ui.Until(o.ExpiresAt, m.feed.Clock)+".")
	}
	return m.ask(fmt.Sprintf("Set this override for %s", output.Duration(lasts)), lines, func() tea.Msg {
		set, err := m.feed.Actions.SetOverride(m.ctx, wanted, lasts)
		return overrideDone{override: set, err: err}
	})
}

// whom reads the pattern of whom an override is about: the subject under the cursor, whatever it looks like, or what was
// made of it. One of everybody is for the command line.
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

// alsoUnder says which other followed keys an override is about.
func alsoUnder(m *Model, of *live.Row, o *store.Override) []string {
	others := 0
	var some []string
	for _, r := range m.feed.Rows {
		if r.Layout != "" || r == of || !o.Matches(r.Key) {
			continue
		}
		others++
		if some = append(some, output.Printable(r.Key.String())); len(some) > 100*shownKeys {
			slices.Sort(some)
			some = some[:shownKeys]
		}
	}
	slices.Sort(some)
	const few = 3
	some = some[:min(len(some), few)]
	switch lines := []string{}; {
	case !o.Matches(of.Key):
		lines = append(lines, "It is NOT about "+output.Printable(of.Key.String())+".")
		fallthrough
	case others > 0:
		lines = append(lines, "and about "+output.Plural(others, "other key")+" that are followed: "+strings.Join(some, ", "))
		return ui.Wrapped(lines, m.width-border)
	}
	return nil
}

// submitExtension asks for a later end.
func (f *form) submitExtension(m *Model, reason string) tea.Cmd {
	now, wanted := *f.override, strings.TrimSpace(f.inputs[forField].Value())
	// Only the time is read here: the effect stays.
	_, lasts, err := m.feed.Actions.ParseOverride(live.OverrideForm{Effect: store.OverrideExempt, For: wanted})
	if err == nil && !m.feed.Clock.Add(lasts).After(now.ExpiresAt) {
		err = fmt.Errorf("it is in force until %s, which is later", ui.Until(now.ExpiresAt, m.feed.Clock))
	}
	if err != nil {
		f.problem = live.OneLine(err)
		return nil
	}
	m.form = nil
	lines := append(ui.Override(&now, m.feed.Clock), "", "It then ends at "+ui.Until(m.feed.Clock.Add(lasts), m.feed.Clock)+".")
	return m.ask("Extend this override to "+output.Duration(lasts)+" from now", lines, func() tea.Msg {
		again := now // which gets a new end
		again.Reason = cmp.Or(reason, now.Reason)
		set, err := m.feed.Actions.SetOverride(m.ctx, again, lasts)
		return overrideDone{override: set, err: err}
	})
}

// effectOn says what an override does to a row, and whether that loosens or tightens its
// limit.
func effectOn(r *live.Row, o *store.Override) string {
	switch {
	case o.Effect == store.OverrideBlock:
		return "tightened: everything is denied, and nothing is charged"
	case o.Effect == store.OverrideExempt:
		return "loosened: nothing is denied, and all is counted"
	case !r.LimitKnown() || r.Override != nil && o.Effect != store.OverrideLimit:
		return allowance.Effect(o) + " of the limit that is configured"
	}
	before, after := r.Limit, o.Apply(r.Limit)
	word := "changed"
	switch overTime, atOnce := allowance.Compare(before, after); {
	case overTime == 0 && atOnce == 0:
		word = "the same as it is"
	case overTime >= 0 && atOnce >= 0:
		word = "loosened"
	case overTime <= 0 && atOnce <= 0:
		word = "tightened"
	}
	return word + ": " + before.String() + " becomes " + after.String()
}

// overrideDone says that an override was set or ended.
type overrideDone struct {
	override store.Override
	ended    bool
	err      error
}

func (done overrideDone) absorb(m *Model) tea.Cmd {
	switch {
	case done.err != nil:
		m.complain(done.err)
	case done.ended:
		m.say("ended: " + allowance.Effect(&done.override) + " of " + output.Printable(done.override.Subjects.String()))
	default:
		m.say(fmt.Sprintf("set: %s until %s; services follow within about a second", allowance.Effect(&done.override),
			ui.Until(done.override.ExpiresAt, m.feed.Clock)))
	}
	return tea.Batch(m.feed.Look(), m.feed.LookOverrides())
}

// lines draws the form in at most that many lines and columns. Where there is no room for all fields, those around the
// current one are shown.
func (f *form) lines(t *ui.Theme, height, columns int) []string {
	const (
		label  = 8
		around = 2 // the title and the keys
	)
	fields, problem := f.fields(), ui.Wrapped([]string{f.problem}, columns)
	if f.problem == "" {
		problem = nil
	}
	if room := max(1, height-around-len(problem)); len(fields) > room {
		first := max(0, min(slices.Index(fields, f.field)-room/2, len(fields)-room))
		fields = fields[first : first+room]
	}
	lines := []string{t.Bold.Of(f.title)}
	for _, field := range fields {
		named, typed := t.Faint, t.Plain
		if field == f.field {
			named, typed = t.Accent, t.Accent
		}
		name, value := f.words(field)
		line := ui.Pad(named.Of(name), label)
		switch {
		case field >= valueFields:
			line += typed.Of(value)
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

// words are what a field is called, and what is chosen in it.
func (f *form) words(field int) (name, value string) {
	c := &f.choices[f.chosen]
	switch field {
	case effectField:
		return "do", "‹ " + c.word + " ›"
	case valueField:
		return cmp.Or(map[store.OverrideEffect]string{store.OverrideTimes: "by", store.OverrideAdd: "units"}[c.effect], "to"), ""
	case whomField:
		return "whom", ""
	case aboutField:
		if f.all {
			return "about", "‹ all limits of whom ›"
		}
		return "about", "‹ this limit ›"
	case forField:
		return "for", ""
	default:
		return "why", ""
	}
}
