package source

import (
	"fmt"
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// There is a bound on the groups that are counted, and what is beyond it is known to be there.
func TestNotAllGroupsAreCounted(t *testing.T) {
	totals := NewGroupTotals()
	for i := range mostGroups + 10 {
		e := admin.Entry{Key: store.Key{Subject: fmt.Sprintf("user:%d", i), Name: "n"}, UsedUnknown: i > 0}
		e.Limit.Count = 1
		totals.Add(&Reading{Entry: e})
	}
	totals.Add(&Reading{Entry: admin.Entry{Key: store.Key{Subject: "user:0", Name: "other"}}})
	if len(totals.By[Grouping{Attribute: "user"}]) != mostGroups || !totals.More[Grouping{Attribute: "user"}] || totals.More[Grouping{}] ||
		*totals.By[Grouping{Attribute: "user"}]["0"] != (GroupTotal{2, 1}) {
		t.Errorf("counted are %d, more: %v", len(totals.By[Grouping{Attribute: "user"}]), totals.More)
	}
}

func TestNetworks(t *testing.T) {
	for value, want := range map[string]string{
		"203.0.113.9": "203.0.113.0/24", "::ffff:203.0.113.9": "203.0.113.0/24", "2001:db8:1:2:3::4": "2001:db8:1:2::/64",
		"fe80::1%eth0": "fe80::/64", "": "", "7": "", "a.b": "", "203.0.113.0/24": "", "1.2.3.4.5": "", "::": "::/64",
	} {
		if got := NetworkOf(value); got != want {
			t.Errorf("the network of %q is %q, want %q", value, got, want)
		}
	}
}
