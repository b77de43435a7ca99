package cmd

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

// The user that docs/operations.md has for load tests is refused nothing, whatever the
// algorithm and the implementation, leaves no key behind, and cannot touch other keys.
func TestDocumentedRightsOfALoadTest(t *testing.T) {
	tier.Full(t, "load tests of seconds")
	t.Parallel()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^redis-cli (ACL SETUSER limits-loadtest .*)$`).FindSubmatch(text)
	if line == nil {
		t.Fatal("docs/operations.md has no user for load tests")
	}
	var command []any
	for word := range strings.FieldsSeq(strings.ReplaceAll(string(line[1]), "'", "")) {
		command = append(command, word)
	}
	server := redistest.Start(t)
	server.Do(command...)
	store := "redis://limits-loadtest:PASSWORD@" + server.Addr
	for _, implementation := range []string{"script", "naive"} {
		w := newWorld(t)
		out, _ := w.run(t, exitYes, "loadtest", "--store", store, "--limit", "1000/1m", "--algorithm", "all", "--implementation", implementation,
			"--workers", "2", "--keys", "2", "--requests", "400", "--duration", "10s", "--no-fail", "-o", "json")
		if strings.Contains(out, "is not known") || !strings.Contains(out, `"bytes_per_unit"`) || !strings.Contains(out, `"server_cpu_us"`) {
			t.Errorf("%s: something is not known:\n%s", implementation, out)
		}
	}
	if log := fmt.Sprint(server.Do("ACL", "LOG")); log != "[]" {
		t.Errorf("refused was %s", log)
	}
	if keys := server.Do("DBSIZE"); fmt.Sprint(keys) != "0" {
		t.Errorf("%v keys are left", keys)
	}
	newWorld(t).run(t, exitRefused, "consume", "user:42", "--limit", "10/1m", "--store", store)
}
