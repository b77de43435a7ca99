package dash

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"github.com/limitctl/limitctl/internal/hostiletext"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
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
	fitted := d.keys.fitted(d.model)
	s := seenAt{columns: map[columnName]int{}}
	for _, c := range fitted {
		s.columns[c.name] = c.width
	}
	rows := d.keys.rows[d.keys.top:min(d.keys.top+d.listHeight(), len(d.keys.rows))]
	names := tell(rows, fitted)
	looks := map[string]store.Key{}
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
	for name, fill := range map[string]func(*driver){
		"routes": routes, "fleet": fleet,
		"one subject": func(d *driver) {
			for i := range 12 {
				name := fmt.Sprintf("api/a-rather-long-name-of-a-limit-%d-of-many", i)
				d.take(store.Key{Subject: "tenant:acme", Name: name}, "10/1h", int64(i%10+1))
			}
		},
		"texts": func(d *driver) {
			for i, text := range hostiletext.Subjects() {
				d.take(store.Key{Subject: "tenant:acme:" + text}, "10/1h", int64(i%10+1))
				row := deniedRow("tenant:acme:"+text, int64(i+1))
				row.Shorten()
				d.deny(admin.Denials{Rows: []admin.Denied{row}})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := begin(t, nil, nil)
			fill(d)
			d.second()
			d.second()
			titles := columns()
			before := d.seen(40, 24)
			for width := 43; width <= 200; width += 3 {
				now := d.seen(width, 24)
				for c, columns := range before.columns {
					if now.columns[c] < columns {
						t.Fatalf("at %d columns %q has %d, and a little fewer gave it %d", width, titles[c].title, now.columns[c], columns)
					}
				}
				for i := range before.subjects {
					if now.subjects[i] < before.subjects[i] {
						t.Fatalf("at %d columns %d of row %d are shown, and a little fewer showed %d:\n%s", width, now.subjects[i], i,
							before.subjects[i], d.View())
					}
				}
				for _, word := range before.head {
					if !slices.Contains(now.head, word) {
						t.Fatalf("at %d columns the head has no %q, and a little fewer had it: %q", width, word, now.head)
					}
				}
				before = now
			}
		})
	}
}

// fleet is many keys with short subjects, and two with long ones, one of which is under an override.
func fleet(d *driver) {
	for i := range 400 {
		d.take(store.Key{Subject: fmt.Sprintf("tenant:t%04d:user:%03d", i, i), Name: "api/user"}, "60/1m", int64(20+i%30))
	}
	d.take(store.Key{Subject: hottest, Name: "api/user-route"}, "60/1h", 60)
	d.take(store.Key{Subject: calmest, Name: "api/user-route"}, "60/1h", 59)
	d.setOverride(hottest, store.Override{Effect: store.OverrideTimes, Thousandths: 3000})
}

const (
	hottest = "tenant:acme:user:7:route:/v1/orders/42" // 38 columns
	calmest = "tenant:acme:user:9:route:/v1/orders/4"
)

// few is one key, which is denied, with a subject about as long as one that is always shown whole.
func few(d *driver) {
	d.take(store.Key{Subject: longest, Name: "api/user-route"}, "60/1h", 60)
	for range 3 {
		d.deny(admin.Denials{Rows: []admin.Denied{{Key: store.Key{Subject: longest, Name: "api/user-route"}, Count: 17}}})
		d.second()
	}
}

const longest = "tenant:acme:user:7:route:/v1/orders/42/items/17/refunds/9" // 57 columns

// A subject that stands alone is in its row and not in the header, and who is denied is whole at 80 columns.
func TestTheSubjectOfALoneKeyIsInItsRow(t *testing.T) {
	d := begin(t, nil, nil)
	few(d)
	for _, columns := range []int{80, 100, 160} {
		d.send(tea.WindowSizeMsg{Width: columns, Height: 24})
		if text := d.View(); !strings.Contains(text, "▸  "+longest+" ") {
			t.Errorf("at %d columns:\n%s", columns, text)
		}
	}
	d.send(tea.WindowSizeMsg{Width: 40, Height: 12})
	if text := d.View(); !strings.Contains(text, "▸  tenant:acme:u…") || !strings.Contains(text, "SUBJECT") {
		t.Errorf("at 40 columns:\n%s", text)
	}
	calm := begin(t, func(d *driver) { d.take(store.Key{Subject: hottest}, "60/1h", 1) }, nil)
	calm.second()
	calm.second()
	if text := calm.View(); !strings.Contains(text, "▸  "+hottest+" ") {
		t.Errorf("nobody is denied, and at 80 columns it is:\n%s", text)
	}
}

// A row that comes and goes does not move the columns each time; they follow when it stays away, or at once when
// somebody asks for other rows.
func TestColumnsDoNotJump(t *testing.T) {
	d := begin(t, fleet, nil)
	d.send(tea.WindowSizeMsg{Width: 100, Height: 24})
	subject := func() int { return d.keys.fitted(d.model)[0].width }
	wide := subject()
	comes := []admin.Record{}
	for _, key := range []store.Key{{Subject: hottest, Name: "api/user-route"}, {Subject: calmest, Name: "api/user-route"}} {
		comes = append(comes, admin.Record{Key: key})
	}
	if _, _, err := d.store.Delete(t.Context(), comes...); err != nil {
		t.Fatal(err)
	}
	for second := range lately {
		if d.second(); subject() != wide {
			t.Fatalf("%d s after a row went, its column has %d and not %d", second+1, subject(), wide)
		}
	}
	d.second()
	d.second()
	narrow := subject()
	if narrow >= wide {
		t.Errorf("long after a row went, its column has %d", narrow)
	}
	d.take(store.Key{Subject: hottest, Name: "api/user-route"}, "60/1h", 60)
	if d.second(); subject() != wide {
		t.Errorf("with the row its column has %d and not %d", subject(), wide)
	}
	if d.press("/user:399<enter>"); subject() != narrow {
		t.Errorf("with a filter for others the column has %d and not %d", subject(), narrow)
	}
}
