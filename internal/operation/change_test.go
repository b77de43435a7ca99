package operation

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/auditlog"
	"github.com/limitctl/limitctl/internal/connect"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// journalStore is a store whose journal fails as it is told.
type journalStore struct {
	connect.Store
	admin.Tables
}

// journal is its table.
type journal struct {
	admin.SideTable
	texts []string
	errs  []error // of the next calls
}

func (j *journal) Append(_ context.Context, _ admin.List, text string) error {
	j.texts = append(j.texts, text)
	if len(j.errs) > 0 {
		err := j.errs[0]
		j.errs = j.errs[1:]
		return err
	}
	return nil
}

// Without the audit log in the store the work goes on, with one warning. A store that refused is
// not asked again, and one that was away is.
func TestAJournalThatCannotBeWritten(t *testing.T) {
	away, refused := store.ErrUnavailable, store.ErrRefused
	for _, test := range []struct {
		name            string
		errs            []error
		texts, warnings int
	}{
		{"as it should be", nil, 2, 0},
		{"refused", []error{refused}, 1, 1},
		{"away", []error{away, away}, 2, 1},
		{"away and back", []error{away}, 2, 1},
		{"away at the end", []error{nil, away}, 2, 1},
	} {
		s := newSite(t)
		s.take(t, "a", 3)
		journal := &journal{SideTable: s.memory.SideTable, errs: test.errs}
		s.Store = &journalStore{s.memory, admin.Tables{SideTable: journal}}
		warnings := 0
		s.Warn = func(error) { warnings++ }
		result, err := s.Reset(t.Context(), s.planToReset(t), &watcher{})
		if err != nil || result.Changed != 1 || len(journal.texts) != test.texts || warnings != test.warnings {
			t.Errorf("%s: %+v, %v; written are %q, with %d warnings", test.name, result, err, journal.texts, warnings)
		}
		for i, text := range journal.texts {
			var entry auditlog.Entry
			want := []auditlog.Outcome{auditlog.Begun, auditlog.Done}[i]
			if err := json.Unmarshal([]byte(text), &entry); err != nil || entry.Outcome != want ||
				entry.Backup != result.Backup ||
				entry.Run != s.log.begun[0].Run || entry.Matched != 1 {
				t.Errorf("%s: entry %d is %s", test.name, i, text)
			}
		}
	}
}

// Without the entry of this machine that it begins, nothing is changed.
func TestAnIntentThatCannotBeWritten(t *testing.T) {
	s := newSite(t)
	s.take(t, "a", 3)
	s.log.beginFail = errors.New("no room")
	result, err := s.Reset(t.Context(), s.planToReset(t), &watcher{})
	if result != nil || err == nil || !strings.HasSuffix(err.Error(), "no room; nothing was changed") ||
		s.used(t, "a") != 3 ||
		len(s.left(t)) != 0 || s.log.opened != s.log.closed {
		t.Errorf("it came to %+v, %v; left are %q", result, err, s.left(t))
	}
}

// A large request of a protected place asks and is written down, and nothing else is.
func TestLargeRequests(t *testing.T) {
	for _, test := range []struct {
		cost, capacity   int64
		protected, asked bool
	}{
		{1, 1, true, false},
		{1, 2, true, false},
		{2, 2, true, true},
		{2, 3, true, true},
		{2, 4, true, true},
		{2, 5, true, false},
		{49, 100, true, false},
		{50, 100, true, true},
		{500, 100, true, true},
		{100, 100, false, false},
	} {
		s := newSite(t)
		s.Place.Access = Access{Context: "prod", Protected: test.protected}
		limit := tenAnHour
		limit.Count = test.capacity
		w := &watcher{}
		taken := false
		take := func(context.Context) ([]store.Decision, error) {
			taken = true
			return nil, store.ErrOutcomeUnknown
		}
		plan := &ChargePlan{Command: "consume", Requests: []store.Request{{Key: key("a"), Limit: limit,
			Cost: test.cost}}, Text: "a",
			Consent: Consent{Reason: "why"}}
		_, err := s.Charge(t.Context(), plan, w, take)
		if !errors.Is(err, store.ErrOutcomeUnknown) || !taken || (len(w.questions) == 1) != test.asked ||
			(len(s.log.entries) == 1) != test.asked {
			t.Errorf("%+v: %v, asked %+v, written %+v", test, err, w.questions, s.log.entries)
		}
		if test.asked && (s.log.entries[0].Unknown != 1 || s.log.entries[0].Reason != "why" ||
			w.questions[0].Context != "prod") {
			t.Errorf("%+v: written %+v", test, s.log.entries[0])
		}
		w.answer, taken = errNo, false
		if _, err := s.Charge(t.Context(), plan, w, take); test.asked && (!errors.Is(err, errNo) || taken) {
			t.Errorf("%+v: after a no: %v, taken %v", test, err, taken)
		}
	}
}

func TestConsentCovers(t *testing.T) {
	free, dev, prod := Access{}, Access{Context: "dev"}, Access{Context: "prod", Protected: true}
	for _, test := range []struct {
		consent Consent
		access  Access
		want    bool
	}{
		{Consent{}, free, false},
		{Consent{Yes: true}, free, true},
		{Consent{Yes: true}, dev, true},
		{Consent{Yes: true}, prod, false}, // it wants its name
		{Consent{Context: "prod"}, prod, true},
		{Consent{Context: "dev"}, dev, true},
		{Consent{Yes: true, Context: "dev"}, prod, false},
		{Consent{Context: "prod"}, free, false},
	} {
		if got := test.consent.Covers(test.access); got != test.want {
			t.Errorf("%+v covers %+v: %v", test.consent, test.access, got)
		}
	}
}

func TestAClearYes(t *testing.T) {
	for answer, want := range map[string]bool{"y": true, "Yes\n": true, " YES\r\n": true, "": false,
		"n": false, "yess": false, "prod": false} {
		if got := (Question{Text: "Delete"}).IsYes(answer); got != want {
			t.Errorf("%q is a yes: %v", answer, got)
		}
	}
	for answer, want := range map[string]bool{"prod": true, " prod \r\n": true, "PROD": false, "y": false, "": false} {
		if got := (Question{Text: "Delete", Context: "prod"}).IsYes(answer); got != want {
			t.Errorf("%q is the name of prod: %v", answer, got)
		}
	}
}
