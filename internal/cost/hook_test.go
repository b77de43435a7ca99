package cost

import (
	"regexp"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/lua"
)

// The commands in the scripts of decisions count as part of decisions, not as those of other clients.
func TestKindsOfTheScriptsCommands(t *testing.T) {
	calls := 0
	for _, script := range []*lua.Script{lua.DecideAny, lua.Of(1).One, lua.Of(3).One, lua.Of(5).One} {
		for _, call := range regexp.MustCompile(`redis\.p?call\('(\w+)'`).FindAllStringSubmatch(script.Source(), -1) {
			calls++
			if command := strings.ToLower(call[1]); kindOf(command) != plain {
				t.Errorf("%s is of kind %d", command, kindOf(command))
			}
		}
	}
	if calls < 10 {
		t.Errorf("only %d calls were found", calls)
	}
}
