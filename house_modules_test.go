package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/tier"
)

// service is a sample of the modules that many services require.
const service = `
	github.com/beorn7/perks v1.0.1
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/inconshreveable/mousetrap v1.1.0
	github.com/klauspost/compress v1.17.9
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822
	github.com/prometheus/client_golang v1.20.5
	github.com/prometheus/client_model v0.6.1
	github.com/prometheus/common v0.55.0
	github.com/prometheus/procfs v0.15.1
	github.com/spf13/cobra v1.9.1
	github.com/spf13/pflag v1.0.6
	golang.org/x/net v0.40.0
	golang.org/x/sys v0.33.0
	golang.org/x/text v0.25.0
	google.golang.org/protobuf v1.36.6
`

// raised are the modules among them whose version the library raises. The list may only get shorter: a service with
// a limiter should not need newer versions of what it uses for other things.
var raised = []string{
	"github.com/spf13/pflag", // since 1.0.7 an error says what is wrong with a value; 1.0.9 is the first that works with cobra again
	"golang.org/x/net",       // 0.56 fixes the last known vulnerability; x/tools, which testscript imports, needs 0.59
	"golang.org/x/sys",       // go-redis and modernc.org/libc
	"golang.org/x/text",      // x/net; 0.39 fixes the last known vulnerability
}

// Go takes the highest version that any module requires, and our go.mod has requirements for the commands, too.
// They are all that a service sees, since the modules of modules are pruned from its graph.
func TestAServiceKeepsItsModules(t *testing.T) {
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := requirements(string(text)), requirements(service)
	if len(ours) < 20 || len(theirs) != 15 {
		t.Fatalf("%d requirements of ours, %d of the service", len(ours), len(theirs))
	}
	for module, has := range theirs {
		asked, required := ours[module]
		is, listed := required && newer(t, asked, has), slices.Contains(raised, module)
		if is && !listed {
			t.Errorf("go.mod raises %s of a service from %s to %s; require the least version that works and has no known vulnerability",
				module, has, asked)
		}
		if listed && !is {
			t.Errorf("%s is not raised any more; take it off the list", module)
		}
	}
}

// aService takes a limit in a Redis. Its template makes the linker keep methods that nobody calls.
const aService = `package main

import (
	"os"
	"text/template"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

func main() {
	backend, _ := redisstore.Open(redis.Options{})
	limits, _ := limiter.New(backend)
	template.Must(template.New("").Parse("{{.Store.Close}}")).Execute(os.Stdout, limits)
}
`

// A service does not need the layouts of other limiters: they are linked only into programs that use them.
func TestAServiceLinksNoLayouts(t *testing.T) {
	tier.Full(t, "what a service links, which is built for it")
	source, program := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "service")
	if err := os.WriteFile(source, []byte(aService), 0o600); err != nil {
		t.Fatal(err)
	}
	if output, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%s: %s", err, output)
	}
	output, err := exec.Command("go", "tool", "nm", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	symbols := string(output)
	if !strings.Contains(symbols, module+"/pkg/limiter/redisstore.(*layoutKeys).Scan") {
		t.Error("the linker leaves out methods by itself; let the service keep them")
	}
	for _, name := range []string{"All", "all", "Describe", "Named", "traefik.Decode", "(*traefik).Decode"} {
		if strings.Contains(symbols, module+"/pkg/limiter/layouts."+name+"\n") {
			t.Errorf("a service links layouts.%s", name)
		}
	}
}

// requirements returns the versions that a go.mod requires by module.
func requirements(text string) map[string]string {
	versions := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^(?:require)?\s+(\S+) (v\S+)`).FindAllStringSubmatch(text, -1) {
		versions[found[1]] = found[2]
	}
	return versions
}

// newer reports whether one version is above another. If they differ only behind a hyphen, it compares these texts.
func newer(t *testing.T, one, other string) bool {
	t.Helper()
	numbers := func(version string) (n [3]int) {
		release, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
		for i, digits := range strings.Split(release, ".") {
			var err error
			if n[i], err = strconv.Atoi(digits); err != nil {
				t.Fatalf("version %s: %s", version, err)
			}
		}
		return n
	}
	a, b := numbers(one), numbers(other)
	if order := slices.Compare(a[:], b[:]); order != 0 {
		return order > 0
	}
	return one > other
}
