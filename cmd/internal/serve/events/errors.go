package events

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/layers"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// errorsOf identifies errors by policy and kind.
type errorsOf struct{ policy, kind string }

// failing: callers get errors instead of decisions.
type failing struct {
	errorsOf
	spell
	text atomic.Pointer[string] // of the first error
}

// Errors are errors that callers get instead of decisions of a policy.
type Errors struct {
	Policy string    `json:"policy"`
	Kind   string    `json:"kind"` // the label of limitctl_errors_total
	Since  time.Time `json:"since"`
	Calls  int64     `json:"calls"`
	Error  string    `json:"error"`
}

// noPolicy is the name in the log for calls without a policy, as in the metrics.
const noPolicy = "(none)"

// failed reports an error that a caller got instead of a decision, once at the beginning of a spell. Refresh
// reports the rest. Mistakes of callers are not reported, nor is the time that they give the server; it is a
// warning if units may be charged for a call that nobody waited for.
func (l *Log) failed(ask *engine.Ask, err error) {
	if errors.Is(err, engine.ErrUnknownPolicy) {
		return
	}
	call := layers.Call{Err: err}
	kind := errorsOf{cmp.Or(ask.Policy, noPolicy), call.Outcome()}
	if kind.kind == "invalid" || kind.kind == "gave-up" {
		return
	}
	found, known := l.errors.Load(kind)
	if !known {
		found, _ = l.errors.LoadOrStore(kind, &failing{errorsOf: kind})
	}
	if f := found.(*failing); f.count(l.Now()) {
		text := l.withoutSubject(l.Describe(err))
		f.text.Store(&text)
		more := []any{"error", text}
		if foreign := (*store.ForeignError)(nil); l.Redis && errors.As(err, &foreign) {
			more = append(more, "mend", shell.Unlink(foreign.StoreKey)) // with its subject: no caller made that key
		}
		f.tell(l, "callers get errors instead of decisions", "callers give up before the store answers, and units may be charged",
			more...)
	}
}

// refreshErrors reports spells of errors that have ended, and regularly those that go on.
func (l *Log) refreshErrors(now time.Time) {
	l.errors.Range(func(kind, found any) bool {
		f := found.(*failing)
		switch news, count := f.refresh(now); news {
		case isOver:
			l.errors.Delete(kind) // the next error begins a new spell
			l.Log.Info("no caller got such an error for "+quiet.String(), "policy", f.policy, "kind", f.kind, "errors", count,
				"lasted", f.lasted().String())
		case goesOn:
			f.tell(l, "callers still get errors instead of decisions",
				"callers still give up before the store answers, and units may be charged", "errors", count, "since", f.begun())
		case nothing:
		}
		return true
	})
}

// gaveUp is the kind of errors of callers that did not wait for the store, which may have charged them.
const gaveUp = "gave-up-unknown"

// tell logs an error, or a warning with another text if the callers caused it.
func (f *failing) tell(l *Log, failed, gave string, more ...any) {
	level, text := slog.LevelError, failed
	if f.kind == gaveUp {
		level, text = slog.LevelWarn, gave
	}
	l.Log.Log(context.Background(), level, text, append([]any{"policy", f.policy, "kind", f.kind}, more...)...)
}

// callers returns the current errors that callers did not cause.
func (l *Log) callers() (all []Errors) {
	l.errors.Range(func(_, found any) bool {
		if f := found.(*failing); f.active.Load() && f.kind != gaveUp {
			e := Errors{Policy: f.policy, Kind: f.kind, Since: f.begun(), Calls: f.total.Load()}
			if text := f.text.Load(); text != nil {
				e.Error = *text
			}
			all = append(all, e)
		}
		return true
	})
	slices.SortFunc(all, func(a, b Errors) int {
		return cmp.Or(strings.Compare(a.Policy, b.Policy), strings.Compare(a.Kind, b.Kind))
	})
	return all
}

// withoutSubject removes the subject from the text of an error, unless the log may name subjects: in store keys the
// subject is in braces.
func (l *Log) withoutSubject(text string) string {
	if l.Subjects {
		return text
	}
	var out strings.Builder
	for {
		before, rest, found := strings.Cut(text, ":{")
		_, after, closed := strings.Cut(rest, "}")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		out.WriteString(":{…}")
		if !closed {
			return out.String()
		}
		text = after
	}
}
