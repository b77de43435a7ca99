package policy

import (
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// A class leaves its share of what the limit that applies allows at once, rounded up; any other class leaves the
// largest.
func TestClassesLeaveTheirShare(t *testing.T) {
	p := Policy{Name: "llm", Limits: []Limit{{
		Limit:   limiter.Limit{Name: "tokens", Count: 10, Period: time.Minute, Burst: 11},
		By:      []string{"model"},
		Classes: Classes{By: "plan", Of: []Class{{"paid", 0}, {"free", 300_000}, {"batch", 600_000}}},
		Exceptions: []Exception{{
			When:  Attributes{"model": "large"},
			Limit: limiter.Limit{Algorithm: store.FixedWindow, Count: 10, Period: time.Hour},
		}},
	}}}
	if problems := p.Problems(); len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, test := range []struct {
		attributes Attributes
		leave      int64
	}{
		{Attributes{"model": "m", "plan": "paid"}, 0},
		{Attributes{"model": "m", "plan": "free"}, 4},   // of 3.3
		{Attributes{"model": "m", "plan": "silver"}, 7}, // no such class
		{Attributes{"model": "m"}, 7},
		{Attributes{"model": "large", "plan": "free"}, 3},
	} {
		reqs, _, err := p.Prepare().AppendRequests(nil, nil, test.attributes, 1)
		if err != nil || reqs[0].Leave != test.leave {
			t.Errorf("%v: %+v, %v; want %d to be left", test.attributes, reqs, err, test.leave)
		}
	}
	if _, needed := p.Attributes(); needed["plan"] || p.CheckAttributes(Attributes{"plan": "x"}) != nil {
		t.Error("the attribute of the classes is needed, or unknown")
	}
	if got, want := p.Limits[0].Classes.String(),
		"by plan: paid leaves 0%, free leaves 30%, batch leaves 60%"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}

// What is wrong with classes is a problem of its own; what just fits is none.
func TestProblemsOfClasses(t *testing.T) {
	for _, test := range []struct {
		classes Classes
		cost    int64
		shadow  bool
		want    string
	}{
		{Classes{By: "plan", Of: []Class{{"free", 900_000}}}, 0, false, ""},
		{Classes{By: "plan", Of: []Class{{"free", 900_001}}}, 0, false, "a cost of 1 never fits"},
		{Classes{By: "plan", Of: []Class{{"free", 500_001}}}, 5, false, "a cost of 5 never fits"},
		{Classes{By: "plan", Of: []Class{{"free", 999_999}}}, 0, true, ""},
		{Classes{By: "plan", Of: []Class{{"free", 1_000_000}}}, 0, true, "leave less than 100%"},
		{Classes{By: "plan"}, 0, false, "no classes by plan"},
		{Classes{By: "plan", Of: []Class{{"free", 1}, {"free", 2}}}, 0, false, "there twice"},
	} {
		p := Policy{Name: "p", Limits: []Limit{{
			Limit:   limiter.Limit{Name: "l", Count: 10, Period: time.Minute, Shadow: test.shadow},
			By:      []string{"ip"},
			Classes: test.classes,
			Cost:    Cost{Units: test.cost},
		}}}
		problems := p.Problems()
		found := ""
		for _, problem := range problems {
			found += problem.Text + "\n"
		}
		if (found == "") != (test.want == "") || !strings.Contains(found, test.want) || len(problems) > 1 {
			t.Errorf("%+v with a cost of %d: %+v; want %q", test.classes, test.cost, problems, test.want)
		}
	}
}

func TestParseLeave(t *testing.T) {
	for text, want := range map[string]store.Share{"0": 0, "0%": 0, "30%": 300_000, "0.3": 300_000,
		"99.9999%": 999_999} {
		if share, err := ParseLeave(text); err != nil || share != want {
			t.Errorf("%q is %d, %v; want %d", text, share, err, want)
		}
	}
	for _, text := range []string{"", "100%", "1", "30", "-1%", "0.0000001", "101%", "free"} {
		if share, err := ParseLeave(text); err == nil || !strings.Contains(err.Error(), "30%") {
			t.Errorf("%q is %d, %v", text, share, err)
		}
	}
}
