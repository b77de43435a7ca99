package see

import (
	"slices"
	"testing"

	"github.com/limitctl/limitctl/internal/auditlog"
)

// What touched a subject is found by the words of the selection, and of runs about overrides by what is in brackets.
func TestWhatTouchedASubject(t *testing.T) {
	with := func(command, selection string) auditlog.Entry {
		return auditlog.Entry{Command: command, Selection: selection}
	}
	runs := map[string]auditlog.Entry{
		"reset":     with("reset", "'tenant:acme:*'"),
		"attribute": with("reset", "--policy api tenant=acme"),
		"everybody": with("override revoke", "0000000a (*, block)"),
		"network":   with("override revoke", "0000000a (ip:203.0.113.0/24, block)"),
		"several": with("override revoke",
			"0000000a (tenant:acme:*, block) 0000000b (ip:203.0.113.9, limit api/*, ×3)"),
		"with words": with("override revoke", "0000000a (tenant=acme user=7, limit api/*, ×3)"),
		"escaped":    with("block", "ip:2001%3Adb8%3A%3A/64 --for 1h"),
		"flags":      with("override set", "--policy=acme user=8 --times 3 --for 2h"),
	}
	acme := []string{"attribute", "everybody", "reset", "several", "with words"}
	for text, want := range map[string][]string{
		"tenant:acme:*":      acme,
		"tenant:acme:user:8": {"attribute", "everybody", "flags", "reset", "several", "with words"},
		"tenant:zzz:user:9":  {"everybody"},
		"ip:2001:db8::7":     {"escaped", "everybody"},
		"ip:203.0.113.9":     {"everybody", "network", "several"},
		"user=7":             {"everybody", "with words"},
		"tenant:acm":         {"everybody"},
		"0000000b":           {"everybody", "several"},
	} {
		o := auditOptions{about: []string{subjectOf(text)}}
		var got []string
		for name, e := range runs {
			if o.names(&e) {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
