package keys

import (
	"testing"

	"github.com/limitctl/limitctl/pkg/limiter/layouts"
)

// Several keys nobody is sure of are asked for by what they begin with in common.
func TestAskingForUnsureKeys(t *testing.T) {
	keys := func(texts ...string) (list []*layouts.UnsureError) {
		for _, text := range texts {
			list = append(list, &layouts.UnsureError{StoreKey: text, Layouts: []string{"counter"}})
		}
		return list
	}
	for _, test := range []struct {
		keys []*layouts.UnsureError
		want string
	}{
		{keys("rate_limit:api:10.9.0.1", "rate_limit:api:10.9.9.9"), `rate_limit:api:*`},
		{keys("rate_limit:anna", "rate_limit:anna:x"), `rate_limit:*`},
		{keys("quota[x]:1", "quota[x]:2"), `quota\[x\]:*`},
		{keys("rate_limit:1", "hits:2"), `rate_limit:1`},
		{keys("rate_limit:1"), `rate_limit:1`},
	} {
		if name, got := asksFor(test.keys); name != "counter" || got != test.want {
			t.Errorf("%s: asks for %s %s, want %s", test.keys[0].StoreKey, name, got, test.want)
		}
	}
}
