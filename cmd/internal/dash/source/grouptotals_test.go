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
	if len(totals.By[Grouping{"user"}]) != mostGroups || !totals.More[Grouping{"user"}] || totals.More[Grouping{}] ||
		totals.By[Grouping{"user"}]["0"] != (GroupTotal{2, 1}) {
		t.Errorf("counted are %d, more: %v", len(totals.By[Grouping{"user"}]), totals.More)
	}
}
