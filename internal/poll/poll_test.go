package poll

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A content is applied once, at rest, and again when it comes back after a failure. Each cause of a failure is returned
// once.
func TestALookAppliesWhatHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text atomic.Value // of string
		var failure error
		var applied []string
		s := Files(func(string) ([]byte, error) { return []byte(text.Load().(string)), failure },
			func(texts [][]byte) error {
				if string(texts[0]) == "wrong" {
					return errors.New("wrong")
				}
				if string(texts[0]) == "bug" {
					panic("a bug")
				}
				applied = append(applied, string(texts[0]))
				return nil
			}, "path")
		s.Settle = Settle
		for i, step := range []struct {
			text        string
			failure     error
			again       bool
			want, stale string
		}{
			{"a", nil, false, "true <nil> [a]", ""},
			{"a", nil, false, "false <nil> [a]", ""},
			{"a", nil, true, "true <nil> [a a]", ""},
			{"wrong", nil, false, "false wrong [a a]", "wrong"},
			{"wrong", nil, false, "false <nil> [a a]", "wrong"},
			{"a", nil, false, "true <nil> [a a a]", ""},
			{"bug", nil, false, "false internal error: a bug [a a a]", "internal error: a bug"},
			{"a", errors.New("away"), false, "false away [a a a]", "away"},
			{"a", errors.New("away"), false, "false <nil> [a a a]", "away"},
			{"a", nil, false, "true <nil> [a a a a]", ""},
		} {
			text.Store(step.text)
			failure = step.failure
			done, err := s.Look(t.Context(), step.again)
			if got := fmt.Sprint(done, err, applied); got != step.want || s.Stale() != step.stale {
				t.Errorf("step %d: %s, want %s; stale is %q", i, got, step.want, s.Stale())
			}
		}
		ended, end := context.WithCancel(t.Context())
		end()
		failure = errors.New("ended")
		if applied, err := s.Look(ended, false); applied || err != failure || s.Stale() != "" {
			t.Errorf("the end is a failure: %t, %v, %q", applied, err, s.Stale())
		}
		failure = nil
		text.Store("half")
		time.AfterFunc(Settle/2, func() { text.Store("whole") })
		if done, err := s.Look(t.Context(), false); done || err != nil {
			t.Errorf("what is being written is applied: %t, %v", done, err)
		}
		if done, _ := s.Look(t.Context(), false); !done || applied[len(applied)-1] != "whole" {
			t.Errorf("at rest: %t, %v", done, applied)
		}
	})
}
