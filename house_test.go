package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/limitctl/limitctl"

// layers says what each part of the house may import of the others, from the
// entrance down. Anything not listed is a part of its own to be placed here.
var layers = map[string][]string{
	"":                        {"cmd"},
	"cmd":                     {"cmd/internal/backup", "cmd/internal/config", "cmd/internal/connect", "cmd/internal/cost", "cmd/internal/dash", "cmd/internal/doctor", "cmd/internal/naive", "cmd/internal/output", "cmd/internal/progress", "cmd/internal/report", "cmd/internal/unasked", "pkg/limiter", "pkg/limiter/policy", "pkg/loadgen", "pkg/loadgen/audit", "pkg/loadgen/trace"},
	"cmd/internal/backup":     {"pkg/limiter"},
	"cmd/internal/progress":   {"cmd/internal/output"},
	"cmd/internal/config":     {"internal/spelling", "pkg/limiter", "pkg/limiter/policy"},
	"cmd/internal/connect":    {"pkg/limiter", "pkg/limiter/filestore", "pkg/limiter/memorystore", "pkg/limiter/redisstore"},
	"cmd/internal/dash":       {"cmd/internal/output", "pkg/limiter", "pkg/limiter/policy"},
	"cmd/internal/doctor":     {"internal/clusternodes", "cmd/internal/output", "pkg/limiter", "pkg/limiter/policy", "pkg/limiter/filestore", "pkg/limiter/memorystore", "pkg/limiter/redisstore", "lua"},
	"cmd/internal/output":     {},
	"cmd/internal/report":     {"cmd/internal/output", "pkg/limiter", "pkg/loadgen/audit"},
	"cmd/internal/cost":       {"cmd/internal/report", "pkg/limiter", "pkg/limiter/redisstore"},
	"cmd/internal/unasked":    {},
	"cmd/internal/naive":      {"pkg/limiter", "pkg/limiter/redisstore"},
	"pkg/loadgen":             {"pkg/limiter", "pkg/limiter/policy", "pkg/loadgen/audit", "pkg/loadgen/trace"},
	"pkg/loadgen/audit":       {"pkg/limiter"},
	"pkg/loadgen/trace":       {"pkg/limiter"},
	"pkg/limiter":             {"internal/spelling"},
	"internal/clusternodes":   {},
	"internal/spelling":       {},
	"pkg/limiter/policy":      {"pkg/limiter"},
	"pkg/limiter/filestore":   {"pkg/limiter"},
	"pkg/limiter/memorystore": {"pkg/limiter"},
	"pkg/limiter/redisstore":  {"internal/clusternodes", "pkg/limiter", "lua"},
	"pkg/limiter/storetest":   {"pkg/limiter"},
	"lua":                     {"pkg/limiter"},
	"internal/redistest":      {},

	"docs/examples/http-service": {"pkg/limiter", "pkg/limiter/redisstore"},
	"docs/examples/worker":       {"pkg/limiter", "pkg/limiter/filestore"},
	"docs/examples/llm-gateway":  {"pkg/limiter", "pkg/limiter/policy", "pkg/limiter/redisstore"},
}

// drivers may be imported only where they are listed, so that importing one store
// pulls in no other's dependencies.
var drivers = map[string][]string{
	"github.com/redis/go-redis/v9":            {"pkg/limiter/redisstore", "cmd/internal/connect", "cmd/internal/doctor", "internal/redistest", "cmd/internal/cost", "cmd/internal/naive", "docs/examples/http-service", "docs/examples/llm-gateway"},
	"modernc.org/sqlite":                      {"pkg/limiter/filestore"},
	"github.com/spf13/cobra":                  {"cmd"},
	"github.com/olekukonko/tablewriter":       {"cmd/internal/output"},
	"github.com/HdrHistogram/hdrhistogram-go": {"cmd", "cmd/internal/report", "pkg/loadgen"},
	"github.com/charmbracelet":                {"cmd/internal/dash"},
	"pgregory.net/rapid":                      {"pkg/limiter/storetest"},
	"testing":                                 {"pkg/limiter/storetest", "internal/redistest"},
}

// Imports point one way: main → cmd → cmd/internal → pkg/limiter → nothing.
func TestImportsPointOneWay(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		allowed, known := layers[name]
		if !known {
			t.Errorf("package %q has no place in layers", name)
		}
		for _, imported := range p.Imports {
			if own, is := strings.CutPrefix(imported, module+"/"); is && !slices.Contains(allowed, own) {
				t.Errorf("%q imports %q, which is not below it", name, own)
			}
			for driver, places := range drivers {
				if (imported == driver || strings.HasPrefix(imported, driver+"/")) && !slices.Contains(places, name) {
					t.Errorf("%q imports %s, which belongs in %q", name, imported, places)
				}
			}
			if imported == "os" && !slices.Contains([]string{"", "cmd", "cmd/internal/unasked", "pkg/limiter/filestore", "internal/redistest", "docs/examples/worker"}, name) {
				t.Errorf("%q imports os", name)
			}
		}
	}
}

// What a service that imports one store depends on.
func TestAStorePullsInNoOthersDependencies(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, dependency := range p.Deps {
			if name == "pkg/limiter" || name == "pkg/limiter/memorystore" {
				if first, _, _ := strings.Cut(dependency, "/"); strings.Contains(first, ".") && !strings.HasPrefix(dependency, module) {
					t.Errorf("%q depends on %s; it needs the standard library only", name, dependency)
				}
			}
		}
	}
}

type goPackage struct {
	ImportPath    string
	Imports, Deps []string
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	output, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []goPackage
	decoder := json.NewDecoder(strings.NewReader(string(output)))
	for {
		var p goPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < len(layers) {
		t.Fatalf("go list names %d packages, and layers %d", len(all), len(layers))
	}
	return all
}
