package began

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// scene is a store at a time, to which a case adds denials and changes.
type scene struct {
	*testing.T
	table     *admin.Tables
	now       time.Time
	denials   admin.Denials
	overrides []store.Override
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// denied adds a key that was denied so often, since and last so long before noon.
func (s *scene) denied(subject, name string, count int64, since, last time.Duration) {
	s.denials.Rows = append(s.denials.Rows, admin.Denied{Key: store.Key{Subject: subject, Name: name}, Count: count,
		Since: store.InstantOf(noon.Add(-since)), LastAt: store.InstantOf(noon.Add(-last))})
}

// publish publishes a version so long before noon, in which limit p/x is so many a minute, and 9 of tenant t; of is the
// one that it brings back, 0 for none.
func (s *scene) publish(ago time.Duration, of, count int64) {
	s.now = noon.Add(-ago)
	state, err := published.Read(s.Context(), s.table)
	if err != nil {
		s.Fatal(err)
	}
	v := &published.Version{By: "ana", Of: of, Text: fmt.Appendf(nil, "policies:\n  p:\n    limits:\n      - name: x\n"+
		"        limit: %d/1m\n        by: [user]\n        overrides:\n          - when: {user: t}\n            "+
		"limit: 9/1m\n", count)}
	if done, err := s.table.Change(s.Context(), state.Next(v)); err != nil || !done {
		s.Fatal(done, err)
	}
	s.ran(ago, auditlog.Entry{Command: "config publish", Selection: fmt.Sprintf("f (version %d)", v.Number),
		Changed: 1})
}

// ran adds a run to the journal so long before noon, which is done unless it says something else.
func (s *scene) ran(ago time.Duration, entry auditlog.Entry) {
	entry.Time, entry.Outcome = noon.Add(-ago), cmp.Or(entry.Outcome, auditlog.Done)
	entry.Run = cmp.Or(entry.Run, auditlog.NewRun())
	text, err := entry.Text(1000)
	if err == nil {
		err = s.table.AppendJournal(s.Context(), text)
	}
	if err != nil {
		s.Fatal(err)
	}
}

// overrides are the overrides of a run, blocks of these subjects.
func overrides(subjects ...string) (all []auditlog.Override) {
	for _, subject := range subjects {
		all = append(all, auditlog.Override{Override: fmt.Appendf(nil, `{"subject":%q,"effect":"block"}`, subject)})
	}
	return all
}

func TestWhatBegan(t *testing.T) {
	const minute, second = time.Minute, time.Second
	const block9, block24 = "block ip:203.0.113.9/32", "block ip:203.0.113.0/24"
	for name, test := range map[string]struct {
		make func(s *scene)
		want string // limits, changes and the beginning of the command
	}{
		"nothing": {func(s *scene) {}, ""},
		"bound":   {func(s *scene) { s.denied("a", "x", 3, 10*minute, 0) }, "x 3 1"},
		"before":  {func(s *scene) { s.denied("a", "x", 3, 10*minute+time.Microsecond, 0) }, ""},
		"by limit": {func(s *scene) {
			s.denied("a", "x", 3, minute, 0)
			s.denied("b", "y", 5, minute, 0)
			s.denied("c", "x", 4, 2*minute, 0)
			s.denied("d", "x", 99, time.Hour, 0)
		}, "x 7 2, y 5 1"},
		"changes": {func(s *scene) {
			s.denied("a:1", "x", 3, 5*minute, 0)
			s.ran(15*minute+second, auditlog.Entry{Command: "reset", Selection: "'a:*'", Changed: 1})
			s.ran(15*minute, auditlog.Entry{Command: "reset", Selection: "a:1", Changed: 1})
			s.ran(14*minute, auditlog.Entry{Command: "reset", Selection: "'b:*'", Changed: 1})
			s.ran(13*minute, auditlog.Entry{Command: "reset", Selection: "--exact 'a:*'", Changed: 1})
			s.ran(12*minute, auditlog.Entry{Command: "reset", Selection: "'a:*' --limit-name y", Changed: 1})
			s.ran(11*minute, auditlog.Entry{Command: "reset", Selection: "'a:*'"})
			s.ran(10*minute, auditlog.Entry{Command: "exempt", Overrides: overrides("b:*")})
			s.ran(9*minute, auditlog.Entry{Command: "override revoke", Overrides: overrides("b:*", "a:*"), Changed: 2})
			s.ran(8*minute, auditlog.Entry{Command: "undo", Selection: "/f", Changed: 1})
			s.ran(4*minute, auditlog.Entry{Command: "reset", Selection: "a:1", Changed: 1})
		}, "x 3 1 after override revoke, reset"},
		"undo": {func(s *scene) {
			s.denied("a:1", "x", 3, 5*minute, 0)
			s.ran(time.Hour, auditlog.Entry{Command: "reset", Selection: "'a:*'", Changed: 1, Backup: "/f"})
			s.ran(time.Hour, auditlog.Entry{Command: "reset", Selection: "'b:*'", Changed: 1, Backup: "/g"})
			s.ran(7*minute, auditlog.Entry{Command: "undo", Selection: "/g", Changed: 1})
			s.ran(6*minute, auditlog.Entry{Command: "undo", Selection: "/f", Changed: 1})
		}, "x 3 1 after undo"},
		"half of a network": {func(s *scene) {
			s.denied("ip:203.0.113.9", "x", 2, minute, 0)
			s.denied("ip:203.0.113.7", "x", 2, minute, 0)
			s.denied("user:1", "x", 4, minute, 0)
		}, "x 8 3"},
		"more than half of a network": {func(s *scene) {
			s.denied("ip:203.0.113.9", "x", 2, minute, 0)
			s.denied("ip:203.0.113.7", "x", 3, minute, 0)
			s.denied("user:1", "x", 4, minute, 0)
		}, "x 9 3: " + block24},
		"others": {func(s *scene) {
			s.denied("ip:203.0.113.9", "x", 5, minute, 0)
			s.denials.Others = 5
		}, "x 5 1"},
		"one address": {func(s *scene) {
			s.denied("ip:203.0.113.9", "x", 3, minute, 0)
			s.denied("ip:203.0.113.9", "y", 3, minute, 0)
			s.denied("ip:203.0.113.7", "x", 3, minute, 0)
		}, "x 6 2: " + block24 + ", y 3 1: " + block9},
		"IPv6": {func(s *scene) {
			s.denied("ip:2001:db8::1", "x", 3, minute, 0)
			s.denied("ip:2001:db8::2", "x", 3, minute, 0)
		}, "x 6 2: block ip:2001:db8::/64"},
		"glob": {func(s *scene) { s.denied("t:*:ip:203.0.113.9", "x", 3, minute, 0) }, "x 3 1"},
		"over": {func(s *scene) { s.denied("ip:203.0.113.9", "x", 3, 9*minute, 5*minute+second) }, "x 3 1"},
		"blocked": {func(s *scene) {
			s.denied("ip:203.0.113.9", "x", 3, minute, 0)
			o := store.Override{Effect: store.OverrideBlock}
			o.Subjects, _ = store.ParsePattern("ip:203.0.113.0/24")
			s.overrides = append(s.overrides, o)
		}, "x 3 1"},
		"lost": {func(s *scene) {
			s.denied("ip:203.0.113.9", "x", 3, minute, 0)
			s.denials.Lost = true
		}, "x 3 1"},
		"version just before": {func(s *scene) {
			s.publish(time.Hour, 0, 10)
			s.publish(11*minute, 0, 5)
			s.denied("user:1", "p/x", 3, minute, 0)
			s.denied("user:2", "p/x", 2, minute-second, 0)
		}, "p/x 5 2 after config publish: config rollback 1"},
		"version before a network": {func(s *scene) {
			s.publish(time.Hour, 0, 10)
			s.publish(2*minute, 0, 5)
			s.denied("user:203.0.113.9", "p/x", 2, minute, 0)
			s.denied("user:203.0.113.7", "p/x", 2, minute, 0)
		}, "p/x 4 2 after config publish: config rollback 1"},
		"version before one address": {func(s *scene) {
			s.publish(time.Hour, 0, 10)
			s.publish(2*minute, 0, 5)
			s.denied("user:203.0.113.9", "p/x", 3, minute, 0)
			s.denied("user:203.0.113.7", "p/x", 2, minute, 0)
		}, "p/x 5 2 after config publish: block user:203.0.113.9/32"},
		"version too long before": {func(s *scene) {
			s.publish(time.Hour, 0, 10)
			s.publish(11*minute, 0, 5)
			s.denied("user:1", "p/x", 2, minute, 0)
			s.denied("user:2", "p/x", 3, minute-second, 0)
		}, "p/x 5 2 after config publish"},
		"version at the same time": {func(s *scene) {
			s.publish(time.Hour, 0, 10)
			s.publish(minute, 0, 5)
			s.denied("user:1", "p/x", 2, minute+time.Microsecond, 0)
			s.denied("user:2", "p/x", 3, minute, 0)
		}, "p/x 5 2 after config publish: config rollback 1"},
		"version of others": {func(s *scene) {
			s.publish(time.Hour, 0, 10)
			s.publish(2*minute, 0, 5)
			s.denied("user:t", "p/x", 3, minute, 0)
		}, "p/x 3 1"},
		"version that allows more": {func(s *scene) {
			s.publish(time.Hour, 0, 10)
			s.publish(2*minute, 0, 20)
			s.denied("user:1", "p/x", 3, minute, 0)
		}, "p/x 3 1"},
		"version in a run of denials": {func(s *scene) {
			s.publish(time.Hour, 0, 10)
			s.publish(5*minute, 0, 5)
			s.publish(4*minute, 1, 10)
			s.publish(2*minute, 0, 6)
			s.denied("user:1", "p/x", 3, 4*minute+second, minute)
		}, "p/x 3 1 after config publish: config rollback 3"},
		"version rolled back in a run of denials": {func(s *scene) {
			s.publish(time.Hour, 0, 10)
			s.publish(5*minute, 0, 5)
			s.publish(4*minute, 1, 10)
			s.denied("user:1", "p/x", 3, 4*minute+second, minute)
		}, "p/x 3 1"},
		"version after the last denial": {func(s *scene) {
			s.publish(time.Hour, 0, 10)
			s.publish(5*minute, 0, 5)
			s.publish(minute-second, 0, 6)
			s.denied("user:1", "p/x", 3, 4*minute, minute)
		}, "p/x 3 1 after config publish"},
		"two causes": {func(s *scene) {
			s.publish(time.Hour, 0, 10)
			s.publish(2*minute, 0, 5)
			s.denied("user:1", "p/x", 3, minute, 0)
			s.denied("ip:203.0.113.9", "y", 90, minute, 0)
			s.denied("ip:203.0.113.8", "z", 8, minute, 0)
		}, "y 90 1: " + block9 + ", z 8 1, p/x 3 1 after config publish: config rollback 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scene{T: t, now: noon}
			s.table, _ = admin.TablesOf(memorystore.New(memorystore.WithClock(func() time.Time { return s.now })))
			test.make(s)
			s.denials.Now = store.InstantOf(noon)
			b, err := Find(t.Context(), s.table, &s.denials, store.NewOverrideList(s.overrides))
			if err != nil {
				t.Fatal(err)
			}
			if b == nil {
				b = new(Began)
			}
			var limits []string
			for _, l := range b.Limits {
				text := fmt.Sprint(l.Name, " ", l.Denied, " ", l.Keys)
				for i, e := range l.Changes {
					text += map[bool]string{true: " after ", false: ", "}[i == 0] + e.Command
				}
				if command, _, _ := strings.Cut(strings.Join(l.Command, " "), " --"); command != "" {
					text += ": " + command
				}
				limits = append(limits, text)
			}
			if got := strings.Join(limits, ", "); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
			if without, _ := Find(t.Context(), s.table, &s.denials, nil); without != nil &&
				without.Limits[0].Command != nil {
				t.Errorf("without knowing overrides it suggests %q", without.Limits[0].Command)
			}
		})
	}
}
