package dash

import (
	"fmt"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/cmd/internal/dash/source"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// groupLine is the line of a group on the screen.
func (d *driver) groupLine(name string) string {
	for text := range strings.Lines(d.View()) {
		if strings.Contains(text, name+" ") {
			return strings.Join(strings.Fields(text), " ")
		}
	}
	return ""
}

// Groups count all keys, also those that are not followed.
func TestGroupsCountAllKeys(t *testing.T) {
	fill := func(d *driver) {
		for i := range 60 {
			d.take(store.Key{Subject: fmt.Sprintf("tenant:acme:user:%d", i)}, "100/1h", int64(1+i))
		}
		for i := range 30 {
			d.take(store.Key{Subject: fmt.Sprintf("tenant:globex:user:%d", i), Name: "api/user"}, "10/1h", 10)
		}
		d.take(store.Key{Subject: "someone"}, "100/1h", 1)
	}
	for _, most := range []int{5000, 5} {
		d := begin(t, fill, func(o *Options) { o.MaxKeys = most })
		d.send(tea.WindowSizeMsg{Width: 120, Height: 24})
		d.press("g2")
		for name, want := range map[string]string{"globex": "globex 30 30 -", "acme": "acme 60 0 -", "(none)": "(none) 1 0 -"} {
			if line := d.groupLine(name); !strings.Contains(line, want) {
				t.Errorf("with %d followed the group is %q, want %q:\n%s", most, line, want, d.View())
			}
		}
		d.press("g1")
		if line := d.groupLine("api/user"); !strings.Contains(line, "api/user 30 30") {
			t.Errorf("with %d followed the group is %q", most, line)
		}
		d.press("g2/globex<enter>")
		if line, least := d.groupLine("globex"), most == 5; strings.Contains(line, "≥") != least {
			t.Errorf("filtered, with %d followed the group is %q", most, line)
		}
	}
}

// A group of which not all keys are counted is marked.
func TestGroupsThatAreNotCountedAreMarked(t *testing.T) {
	totals := source.NewGroupTotals()
	d := begin(t, three, func(o *Options) { o.MaxKeys = 2 })
	totals.More[source.Grouping{Attribute: "tenant"}] = true
	d.feed.groups = totals
	d.take(store.Key{Subject: "tenant:acme:user:7", Name: "api/user"}, "100/1m", 50)
	d.send(refreshDue{d.ticks})
	d.send(denialsDue{})
	d.deny(admin.Denials{Rows: []admin.Denied{{Key: store.Key{Subject: "tenant:acme:user:7", Name: "api/user"}, Count: 9}}})
	d.now = d.now.Add(2e9)
	d.send(denialsDue{})
	d.send(refreshDue{d.ticks})
	d.press("g2")
	if line := d.groupLine("acme"); !strings.Contains(line, "acme ≥1 ≥0 ✗ 4.5") {
		t.Errorf("the group is %q:\n%s", line, d.View())
	}
}

// The menu remembers what was chosen, and a grouping is one digit away.
func TestTheMenuOfGroupings(t *testing.T) {
	d := begin(t, three, nil)
	if d.press("g2"); d.groups.by.Attribute != "tenant" || d.screen != &d.groups {
		t.Errorf("grouped by %q", d.groups.by.Attribute)
	}
	if d.press("<esc>g<enter>"); d.groups.by.Attribute != "tenant" || d.screen != &d.groups {
		t.Errorf("again it is grouped by %q", d.groups.by.Attribute)
	}
	if d.press("gj<enter>"); d.groups.by.Attribute != "user" {
		t.Errorf("by the next one it is grouped by %q", d.groups.by.Attribute)
	}
	if d.press("g<esc>"); d.screen != &d.groups || d.isAsking() {
		t.Error("esc does not leave the menu alone")
	}
	if d.press("gk"); d.changes.menu == nil || d.changes.menu.choices[d.changes.menu.cursor] != "tenant" {
		t.Error("k does not go up")
	}
	if d.press("tx9"); d.changes.menu == nil || d.changes.menu.choices[d.changes.menu.cursor] != "tenant" {
		t.Error("a letter, or a number that no entry has, does something")
	}
	if d.press("g"); d.isAsking() || d.screen != &d.groups {
		t.Error("g does not close what it opens")
	}
	if d.press("g0"); d.screen != &d.keys {
		t.Error("0 does not show the keys")
	}
}
