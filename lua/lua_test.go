package lua_test

import (
	"os"
	"path/filepath"
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

// The numbers of kinds are said in Go, once.
func TestScriptsNameNoKindByItsNumber(t *testing.T) {
	files, err := filepath.Glob("*.lua")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if literal := regexp.MustCompile(`(kind|algorithm) *[=~<>]=? *[0-9]\b|rules\[[0-9]`).Find(text); literal != nil {
			t.Errorf("%s says %q", file, literal)
		}
	}
}
