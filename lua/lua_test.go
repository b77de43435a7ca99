package lua_test

import (
	"regexp"
	"testing"

	"github.com/limitctl/limitctl/lua"
)

// A word in capitals that nothing stood for would be a variable that Lua does not have.
func TestEveryNumberIsFilledIn(t *testing.T) {
	for _, script := range lua.All() {
		for _, word := range regexp.MustCompile(`\b[A-Z]+(_[A-Z]+)+\b`).FindAllString(script, -1) {
			if word != "REDIS_VERSION_NUM" {
				t.Errorf("%s stands for nothing", word)
			}
		}
	}
}
