package dash

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/internal/tier"
	"github.com/limitctl/limitctl/pkg/limiter"
)

// seenAt is what a frame of the list of keys shows at a width.
type seenAt struct {
	columns map[columnName]int // their widths
	// names are how much is shown of the subjects and limits of rows, in columns.
	subjects []int
	head     []string // words of the first two lines
}

func (d *driver) seen(width, height int) seenAt {
	d.t.Helper()
	d.send(tea.WindowSizeMsg{Width: width, Height: height})
	fitted := d.fit()
	s := seenAt{columns: map[columnName]int{}}
	for _, c := range fitted {
		s.columns[c.name] = c.width
	}
	rows := d.keys.rows[d.keys.top:min(d.keys.top+d.listHeight(), len(d.keys.rows))]
	names := tell(rows, fitted)
	looks := map[string]limiter.Key{}
	for i, r := range rows {
		look := names.subjects[i]
		if len(names.limits) > 0 {
			look += "\x00" + names.limits[i]
		}
		if other, is := looks[look]; is {
			d.t.Errorf("at %d columns %s and %s look the same: %q", width, other, r.Key, look)
		}
		looks[look] = r.Key
		shown := columnsOf(names.subjects[i]) + columnsOf(names.subjectPrefix)
		if len(names.limits) > 0 && !names.joined[i] {
			shown += len(" ") + columnsOf(names.limits[i]) + columnsOf(names.limitPrefix)
		}
		s.subjects = append(s.subjects, shown)
	}
	for _, text := range strings.Split(d.View(), "\n")[:2] {
		for word := range strings.FieldsSeq(text) {
			if !strings.Contains(word, "…") && !strings.ContainsAny(word, "▁▂▃▄▅▆▇█") {
				s.head = append(s.head, strings.TrimSuffix(word, ","))
			}
		}
	}
	return s
}

func columnsOf(text string) int { return width(strings.ReplaceAll(text, "…", "")) }

// A wider terminal never shows less, and no two rows look the same at any width.
func TestAWiderTerminalShowsNoLess(t *testing.T) {
	tier.Full(t, "many cases, which take long")
	for name, fill := range map[string]func(*driver){
		"routes": routes, "traffic": traffic, "nobody": nil, "hostile": hostile,
		"one subject": func(d *driver) {
			for i := range 12 {
				name := fmt.Sprintf("api/a-rather-long-name-of-a-limit-%d-of-many", i)
				d.take(limiter.Key{Subject: "tenant:acme", Name: name}, "10/1h", int64(i%10+1))
			}
		},
		"long": func(d *driver) {
			for i := range 30 {
				subject := fmt.Sprintf("%s:%02d:%s", strings.Repeat("a", 90), i, strings.Repeat("b", 90))
				d.take(limiter.Key{Subject: subject}, "10/1h", int64(i%10+1))
			}
		},
		"texts": func(d *driver) {
			for i, text := range hostiletext.Subjects() {
				d.take(limiter.Key{Subject: "tenant:acme:" + text}, "10/1h", int64(i%10+1))
				row := denied("tenant:acme:"+text, int64(i+1))
				row.Shorten()
				d.deny(limiter.Denials{Rows: []limiter.Denied{row}})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := begin(t, nil, nil)
			if fill != nil {
				fill(d)
				d.second()
				d.second()
			}
			titles := columns()
			for _, height := range []int{10, 24, 50} {
				before := d.seen(40, height)
				for width := 41; width <= 200; width++ {
					now := d.seen(width, height)
					for c, columns := range before.columns {
						if now.columns[c] < columns {
							t.Fatalf("at %d columns %q has %d, and one fewer gave it %d", width, titles[c].title, now.columns[c], columns)
						}
					}
					for i := range before.subjects {
						if now.subjects[i] < before.subjects[i] {
							t.Fatalf("at %d columns %d of row %d are shown, and one fewer showed %d:\n%s", width, now.subjects[i], i,
								before.subjects[i], d.View())
						}
					}
					for _, word := range before.head {
						if !slices.Contains(now.head, word) {
							t.Fatalf("at %d columns the head has no %q, and one fewer had it: %q", width, word, now.head)
						}
					}
					before = now
				}
			}
		})
	}
}
