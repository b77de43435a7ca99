package cmd

import (
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/redistest"
)

// Who may delete the keys of another limiter and not bring them back is told so before anything is
// deleted, and can go on. Whoever has the rights is told nothing.
func TestResetSaysThatTheUserCannotUndo(t *testing.T) {
	server := redistest.Start(t)
	for _, right := range []string{"+restore", "-restore"} {
		server.Do("HSET", "rate:mw@file:203.0.113.9", "last", "1", "tokens", "1")
		server.Do("PEXPIRE", "rate:mw@file:203.0.113.9", 3600_000)
		server.Do("ACL", "SETUSER", "op", "reset", "on", ">pw", "~*", "+@all", right)
		w := newWorld(t)
		store := "redis://op:pw@" + server.Addr
		_, stderr := w.run(t, exitYes, "reset", "rate:mw*", "--layout", "traefik", "--yes", "--store", store)
		const warning = "warning: this user cannot undo the reset: store refused: the user lacks the right to run RESTORE"
		at := strings.Index(stderr, warning)
		if (at >= 0) != (right == "-restore") || at > strings.Index(stderr, "undo with") {
			t.Errorf("%s: %s", right, stderr)
		}
		want := exitYes
		if right == "-restore" {
			want = exitRefused
		}
		if _, stderr = w.run(t, want, "undo", "--yes", "--store", store); want != exitYes && !strings.Contains(stderr, "+restore)") {
			t.Errorf("%s: the undo says %s", right, stderr)
		}
	}
}
