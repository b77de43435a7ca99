package dash

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// inContexts gives a dashboard contexts, and returns the names of those that are opened from it.
func inContexts(o *Options, err *error) (opened *[]string) {
	opened = new([]string)
	o.Context = "staging"
	o.Contexts = func() ([]Context, error) {
		return []Context{
			{Name: "dev", Store: "file:limits.db"}, {Name: "staging", Store: "redis://10.0.0.1:6379", InView: true},
			{Name: "prod", Store: "redis+cluster://10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5", Protected: true},
			{Name: "prod-ro", Store: "redis+cluster://10.0.0.1", Protected: true, ReadOnly: true}, {Name: "e\u202evil"},
		}, nil
	}
	o.Switch = func(_ context.Context, name string) error {
		*opened = append(*opened, name)
		return *err
	}
	return opened
}

func TestGoToAnotherContext(t *testing.T) {
	for _, test := range []struct {
		keys, want string
		left       bool
	}{
		{":<down><enter>", "prod", true},
		{":<up><enter>", "dev", true},
		{":jj<enter>", "prod-ro", true},
		{":<enter>", "", false},             // it is in view
		{":<down><esc>", "", false},         // and this is left
		{":<down>::j<enter>", "prod", true}, // the second closes the list
		{"mmm:<down><enter>", "", false},
		{"mmm:<down><enter>n", "", false},
		{"mmm:<down><enter>y", "prod", true},
		{"ry:<down><enter>", "", false}, // the reset could not be undone by a key any more
		{"ry:<down><enter>y", "prod", true},
		{"ryuy:<down><enter>", "prod", true},
		{"o:<down><enter>", "", false}, // this is typed into the form
		{"g:<down><enter>", "", false}, // this closes the other menu first
		{"/:<enter>", "", false},
	} {
		var none error
		var opened *[]string
		d := begin(t, three, func(o *Options) { opened = inContexts(o, &none) })
		d.press(test.keys)
		if got := strings.Join(*opened, " "); got != test.want || d.left != test.left || d.switched != test.left {
			t.Errorf("%s: opened %q, left %t", test.keys, got, d.left)
		}
	}
}

func TestAContextThatCannotBeOpenedLeavesThePresentOne(t *testing.T) {
	failed := errors.New("store unavailable:\n10.0.0.1:6379 cannot be reached")
	d := begin(t, three, func(o *Options) { inContexts(o, &failed) })
	d.press(":<down><enter>")
	if d.left || d.switched {
		t.Error("the dashboard is left")
	}
	frame := d.View()
	foot := frame[strings.LastIndex(frame, "\n")+1:]
	if !strings.Contains(foot, "prod cannot be opened: store unavailable:; 10.0.0.1:6379 cannot be reached") ||
		!strings.Contains(frame, "limitctl staging ") || !strings.Contains(frame, "full") {
		t.Errorf("it shows\n%s", frame)
	}
	failed = nil
	if d.press(":<down><enter>"); !d.switched {
		t.Error("it cannot be tried again")
	}
}

// No other store is opened while keys are changed, and none without contexts.
func TestNoOtherContextIsOpened(t *testing.T) {
	var none error
	var opened *[]string
	d := begin(t, three, func(o *Options) { opened = inContexts(o, &none) })
	d.changes.acting = true
	d.press(":")
	if !strings.Contains(d.View(), "wait until the last action is done") || d.changes.contexts != nil {
		t.Errorf("in an action it shows\n%s", d.View())
	}
	for want, all := range map[string]func() ([]Context, error){
		"the configuration has no contexts": func() ([]Context, error) { return nil, nil },
		"a recording is of one store":       func() ([]Context, error) { return nil, errors.New("a recording is of one store") },
	} {
		d := begin(t, three, func(o *Options) {
			opened = inContexts(o, &none)
			o.Contexts = all
		})
		if d.press(":<down><enter>"); !strings.Contains(d.View(), want) || len(*opened) > 0 {
			t.Errorf("it shows\n%s", d.View())
		}
	}
}

// A dashboard says at first how it came about, and the next one has nothing of the one before.
func TestADashboardBeginsAnew(t *testing.T) {
	d := begin(t, three, func(o *Options) { o.Begin = "now in prod" })
	if !strings.Contains(d.View(), "now in prod") {
		t.Errorf("it shows\n%s", d.View())
	}
	d.now = d.now.Add(noteStays + time.Second)
	if d.send(clockTick{}); strings.Contains(d.View(), "now in prod") {
		t.Error("it says so for ever")
	}
	if d.press(":"); d.changes.contexts != nil {
		t.Error("there is a list of contexts that cannot be opened")
	}
}

func TestFramesOfContexts(t *testing.T) {
	var none error
	for _, size := range []tea.WindowSizeMsg{{Width: 80, Height: 24}, {Width: 100, Height: 30}, {Width: 160, Height: 50},
		{Width: 40, Height: 12}, {Width: 40, Height: 10}} {
		for _, keys := range []string{":", "mrymm:<down><enter>"} {
			d := begin(t, three, func(o *Options) { inContexts(o, &none) })
			d.send(size)
			d.press(keys)
			name := fmt.Sprintf("contexts%s-%dx%d", strings.Map(func(r rune) rune {
				if 'a' <= r && r <= 'z' {
					return r
				}
				return -1
			}, strings.ReplaceAll(keys, ":", "")), size.Width, size.Height)
			d.checkSize(name, d.View())
			golden(t, name+".txt", d.View())
		}
	}
}

// The cursor stays in sight of however many contexts.
func TestManyContexts(t *testing.T) {
	var none error
	d := begin(t, three, func(o *Options) {
		inContexts(o, &none)
		o.Contexts = func() (all []Context, _ error) {
			for i := range 60 {
				all = append(all, Context{Name: fmt.Sprintf("c%02d", i), InView: i == 45})
			}
			return all, nil
		}
	})
	for _, height := range []int{10, 24, 50} {
		d.send(tea.WindowSizeMsg{Width: 80, Height: height})
		d.press(":")
		for _, move := range []string{"", "<down><down>", "<end>", "<up>", "<home>", "<pgdown>", "<pgdown>", "<pgup>"} {
			d.press(move)
			if lines := strings.Split(d.View(), "\n"); !slices.ContainsFunc(lines, func(l string) bool { return strings.Contains(l, "▸  c") }) {
				t.Errorf("%d lines, after %s:\n%s", height, move, d.View())
			}
			d.checkSize("many", d.View())
		}
		d.press("<esc>")
	}
}
