package history

import (
	"slices"
	"testing"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/auditlog"
	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/internal/overridetable"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// recorded returns an override as a run records it.
func recorded(t *testing.T, o store.Override) auditlog.Override {
	t.Helper()
	o.Effect, o.Reason, o.By = store.OverrideBlock, "r", "me"
	written, err := overridetable.Encode(&o, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return auditlog.Override{ID: "0000000a", Override: written.Text}
}

// What touched a subject is found by the words of the selection and by the overrides of the run, and of older entries by
// what is in brackets.
func TestWhatTouchedASubject(t *testing.T) {
	pattern := func(text string) store.Pattern {
		p, err := store.ParsePattern(text)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	with := func(command, selection string, overrides ...store.Override) auditlog.Entry {
		e := auditlog.Entry{Command: command, Selection: selection}
		for _, o := range overrides {
			e.Overrides = append(e.Overrides, recorded(t, o))
		}
		return e
	}
	runs := map[string]auditlog.Entry{
		"reset":      with("reset", "'tenant:acme:*'"),
		"attribute":  with("reset", "--policy api tenant=acme"),
		"extend":     with("override extend", "0000000a (…) --for 2h", store.Override{Subjects: pattern("tenant:acme:user:7")}),
		"everybody":  with("override revoke", "0000000a (…)", store.Override{Subjects: pattern("*")}),
		"of policy":  with("override revoke", "0000000a (…)", store.Override{Attributes: map[string]string{"tenant": "acme"}}),
		"network":    with("override revoke", "0000000a (…)", store.Override{Subjects: pattern("ip:203.0.113.0/24")}),
		"spaces":     with("override revoke", "0000000a (…)", store.Override{Subjects: pattern("tenant:acme corp:*")}),
		"no more":    with("override revoke", "0000000a (tenant:acme:*, block) 0000000b (ip:203.0.113.9, limit api/*, ×3)"),
		"with words": with("override revoke", "0000000a (tenant=acme user=7, limit api/*, ×3)"),
		"file":       with("override set", "of the file of team: tenant:acme:*, block until 2026-11-25T04:00:00Z; user:7, ×2 until 2026"),
		"flags":      with("override set", "--policy=acme user=8 --times 3 --for 2h"),
		"not a file": with("reset", "(tenant:acme:*)"),
	}
	acme := []string{"attribute", "everybody", "extend", "file", "no more", "of policy", "reset", "with words"}
	for about, want := range map[string][]string{
		"tenant:acme:*":      acme,
		"tenant=acme":        acme,
		"tenant:acme:user:7": acme,
		"tenant:acme:user:8": {"attribute", "everybody", "file", "flags", "no more", "of policy", "reset"},
		"tenant:zzz:user:7":  {"everybody"},
		"ip:203.0.113.9":     {"everybody", "network", "no more"},
		"user:7":             {"everybody", "file", "with words"},
		"user=7":             {"everybody", "extend", "file", "with words"},
		"tenant:acme corp:1": {"everybody", "spaces"},
		"tenant=acm":         {"everybody"},
		"tenant:acm":         {"everybody"},
		"acme":               {"everybody"},
		"0000000b":           {"everybody", "no more"},
	} {
		o := auditOptions{}
		var err error
		o.aboutText, o.ofAttribute = attributeAsSubject(about)
		if o.about, err = parsed(o.aboutText); err != nil {
			t.Fatal(err)
		}
		var got []string
		for name, e := range runs {
			if o.names(&e) {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", about, got, want)
		}
	}
}

func parsed(text string) (*store.Pattern, error) {
	p, err := cli.ParseSubjects(text, false)
	return &p, err
}

// A run that certainly changed nothing is not the last change: another one is to be undone.
func TestWhatChangedNothingIsNotUndone(t *testing.T) {
	here := func(*auditlog.Entry) bool { return true }
	first := &auditlog.Entry{Command: "reset", Selection: "a", Changed: 1, Outcome: auditlog.Done, Backup: "a.jsonl"}
	for _, test := range []struct {
		then auditlog.Entry
		want string
	}{
		{auditlog.Entry{Outcome: auditlog.Failed}, "a"},
		{auditlog.Entry{Outcome: auditlog.Failed, Unknown: 1}, "b"},
		{auditlog.Entry{Outcome: auditlog.Partly, Changed: 1}, "b"},
		{auditlog.Entry{Outcome: auditlog.Begun}, "b"},
	} {
		test.then.Command, test.then.Selection, test.then.Backup = "reset", "b", "b.jsonl"
		if last := lastChange([]*auditlog.Entry{first, &test.then}, here); last.run.Selection != test.want {
			t.Errorf("after %+v the last change is %s", test.then, last.run.Selection)
		}
	}
}
