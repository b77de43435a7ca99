package limiter_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/tier"
)

// Wrong use of a call does not compile: a limit without a name, an answer without its error, an error or decisions
// used as a bool, an option of another type.
func TestMisuseDoesNotCompile(t *testing.T) {
	tier.Full(t, "a program is compiled")
	program := "testdata/misuse/main.go"
	text, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	want := map[int]string{} // by line
	for i, line := range strings.Split(string(text), "\n") {
		if _, said, is := strings.Cut(line, " // "); is {
			want[i+1] = said
		}
	}
	out, err := exec.Command("go", "build", "-gcflags=-e", "-o", t.TempDir()+"/misuse", "./testdata/misuse").CombinedOutput()
	if err == nil || len(want) < 10 {
		t.Fatalf("it compiles, and %d lines should not", len(want))
	}
	for _, found := range regexp.MustCompile(`(?m)main\.go:(\d+):\d+: (.*)$`).FindAllStringSubmatch(string(out), -1) {
		line, _ := strconv.Atoi(found[1])
		if said := want[line]; said == "" || !strings.Contains(found[2], said) {
			t.Errorf("line %d: the compiler says %q, want %q", line, found[2], said)
		}
		delete(want, line)
	}
	for line, said := range want {
		t.Errorf("line %d compiles, want %q", line, said)
	}
}
