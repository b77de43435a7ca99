package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/limitctl/limitctl"

// layers lists what each package may import of the others, from the entrance down. A package that is not listed has
// to be added here.
var layers = map[string][]string{
	"": {"cmd"},
	"cmd": {
		"cmd/internal/cli", "cmd/internal/dashboard", "cmd/internal/decide", "cmd/internal/files",
		"cmd/internal/history", "cmd/internal/keys", "cmd/internal/lab", "cmd/internal/noterminalquery",
		"cmd/internal/outcome", "cmd/internal/output", "cmd/internal/override", "cmd/internal/publish", "cmd/internal/serve",
		"cmd/internal/server", "cmd/internal/setup", "cmd/internal/shell", "internal/panics", "internal/sys",
		"internal/texts", "pkg/limiter/store",
	},
	"cmd/internal/cli": {
		"cmd/internal/allowance", "cmd/internal/backup", "cmd/internal/config", "cmd/internal/connect",
		"cmd/internal/files", "cmd/internal/identity", "cmd/internal/operation", "cmd/internal/outcome",
		"cmd/internal/output", "cmd/internal/progress", "cmd/internal/shell", "cmd/internal/storeurl",
		"cmd/internal/auditlog", "internal/configfile", "internal/layers", "internal/panics", "internal/redact", "internal/texts",
		"pkg/limiter/admin", "pkg/limiter/layouts", "pkg/limiter/policy", "pkg/limiter/store",
	},
	"cmd/internal/clitest": {"cmd/internal/cli", "cmd/internal/files"},
	"cmd/internal/decide": {
		"cmd/internal/cli", "cmd/internal/connect", "cmd/internal/decision", "cmd/internal/operation",
		"cmd/internal/outcome", "cmd/internal/output", "cmd/internal/shell", "internal/layers",
		"pkg/limiter/policy", "pkg/limiter/store",
	},
	"cmd/internal/keys": {
		"cmd/internal/allowance", "cmd/internal/cli", "cmd/internal/config", "cmd/internal/connect",
		"cmd/internal/decision", "cmd/internal/operation", "cmd/internal/outcome", "cmd/internal/output",
		"cmd/internal/shell", "pkg/limiter/admin", "pkg/limiter/layouts", "pkg/limiter/policy",
		"pkg/limiter/store",
	},
	"cmd/internal/history": {
		"cmd/internal/allowance", "cmd/internal/backup", "cmd/internal/cli", "cmd/internal/config", "cmd/internal/operation",
		"cmd/internal/outcome", "cmd/internal/output", "cmd/internal/shell", "cmd/internal/auditlog",
		"internal/overridetable", "internal/texts", "pkg/limiter/admin", "pkg/limiter/layouts", "pkg/limiter/store",
	},
	"cmd/internal/override": {
		"cmd/internal/allowance", "cmd/internal/auditlog", "cmd/internal/cli", "cmd/internal/config", "cmd/internal/operation",
		"cmd/internal/outcome", "cmd/internal/output", "cmd/internal/shell", "internal/configfile", "internal/overridetable",
		"internal/subjecttext", "internal/texts", "internal/yamlfile", "pkg/limiter/admin", "pkg/limiter/policy", "pkg/limiter/store",
	},
	"cmd/internal/lab": {
		"cmd/internal/cli", "cmd/internal/connect", "cmd/internal/endpoint", "cmd/internal/files",
		"cmd/internal/junit", "cmd/internal/markdown", "cmd/internal/outcome", "cmd/internal/output",
		"cmd/internal/probe", "cmd/internal/progress", "cmd/internal/report", "cmd/internal/report/compare",
		"cmd/internal/report/show", "cmd/internal/shell",
		"cmd/internal/storeurl", "cmd/internal/experiment", "internal/panics",
		"internal/layers", "pkg/limiter/policy", "pkg/limiter/store", "pkg/loadgen",
		"pkg/loadgen/audit/interval", "pkg/loadgen/trace",
		"cmd/internal/probe/headers",
		"internal/redact",
	},
	"cmd/internal/server": {
		"cmd/internal/cli", "cmd/internal/config", "cmd/internal/connect", "cmd/internal/decision", "cmd/internal/files",
		"cmd/internal/output", "cmd/internal/serve", "cmd/internal/serve/api", "cmd/internal/serve/engine", "cmd/internal/serve/envoy",
		"cmd/internal/serve/events", "cmd/internal/serve/metrics", "cmd/internal/serve/reload",
		"internal/layers", "internal/published", "pkg/limiter/admin", "pkg/limiter/store",
	},
	"cmd/internal/dashboard": {
		"cmd/internal/allowance", "cmd/internal/cli", "cmd/internal/connect", "cmd/internal/dash", "cmd/internal/doctor",
		"cmd/internal/operation", "cmd/internal/output", "cmd/internal/shell", "cmd/internal/storeurl", "internal/sys", "pkg/limiter/admin",
		"pkg/limiter/policy", "pkg/limiter/store",
	},
	"cmd/internal/setup": {
		"cmd/internal/cli", "cmd/internal/config", "cmd/internal/connect", "cmd/internal/decision",
		"cmd/internal/doctor", "cmd/internal/operation", "cmd/internal/outcome", "cmd/internal/output",
		"cmd/internal/ratelimitfile", "cmd/internal/shell", "cmd/internal/storeurl", "internal/configfile", "internal/layers",
		"pkg/limiter/admin", "pkg/limiter/policy", "pkg/limiter/store",
	},
	"cmd/internal/publish": {
		"cmd/internal/allowance", "cmd/internal/cli", "cmd/internal/config", "cmd/internal/connect", "cmd/internal/markdown",
		"cmd/internal/operation", "cmd/internal/output", "cmd/internal/shell", "internal/configfile", "internal/published",
		"pkg/limiter/admin", "pkg/limiter/policy", "pkg/limiter/store", "pkg/loadgen", "pkg/loadgen/trace",
	},
	"cmd/internal/allowance": {"pkg/limiter/admin", "pkg/limiter/policy", "pkg/limiter/store"},
	"cmd/internal/backup": {
		"cmd/internal/files", "cmd/internal/shell", "internal/lines", "internal/panics", "pkg/limiter/admin",
		"pkg/limiter/layouts", "pkg/limiter/store",
	},
	"cmd/internal/progress": {"cmd/internal/output"},
	"cmd/internal/ratelimitfile": {
		"internal/configfile", "internal/texts", "internal/yamlfile", "pkg/limiter/policy", "pkg/limiter/store",
	},
	"cmd/internal/config": {
		"cmd/internal/allowance", "cmd/internal/ratelimitfile", "cmd/internal/storeurl", "internal/configfile", "internal/layers",
		"internal/published", "internal/yamlfile", "pkg/limiter/layouts", "pkg/limiter/httplimit", "pkg/limiter/policy",
		"pkg/limiter/store",
	},
	"cmd/internal/connect": {
		"cmd/internal/shell", "cmd/internal/storeurl", "internal/panics", "internal/redact",
		"internal/redisserver", "internal/sys", "internal/texts", "pkg/limiter/admin", "pkg/limiter/filestore", "pkg/limiter/layouts",
		"pkg/limiter/memorystore", "pkg/limiter/redisstore", "pkg/limiter/store",
	},
	"cmd/internal/dash": {
		"cmd/internal/allowance", "cmd/internal/dash/denied", "cmd/internal/dash/figures", "cmd/internal/dash/followed",
		"cmd/internal/dash/guard", "cmd/internal/dash/source", "cmd/internal/output",
		"internal/panics", "internal/textcut", "pkg/limiter/admin", "pkg/limiter/store",
	},
	"cmd/internal/dash/denied":  {"cmd/internal/dash/figures", "cmd/internal/dash/source", "cmd/internal/output", "pkg/limiter/store"},
	"cmd/internal/dash/figures": {"cmd/internal/allowance", "cmd/internal/output", "pkg/limiter/store"},
	"cmd/internal/dash/followed": {
		"cmd/internal/dash/denied", "cmd/internal/dash/figures", "cmd/internal/dash/source", "cmd/internal/output",
		"pkg/limiter/admin", "pkg/limiter/policy", "pkg/limiter/store",
	},
	"cmd/internal/dash/guard": {"internal/panics"},
	"cmd/internal/dash/source": {
		"cmd/internal/allowance", "cmd/internal/dash/figures", "cmd/internal/output", "internal/panics",
		"pkg/limiter/admin", "pkg/limiter/layouts", "pkg/limiter/policy", "pkg/limiter/store",
	},
	"cmd/internal/decision": {
		"cmd/internal/allowance", "cmd/internal/output", "pkg/limiter/admin", "pkg/limiter/policy", "pkg/limiter/store",
	},
	"cmd/internal/doctor": {
		"cmd/internal/connect", "cmd/internal/output", "cmd/internal/shell", "cmd/internal/storeurl",
		"internal/clusternodes", "internal/panics", "internal/redisserver", "lua", "pkg/limiter/admin",
		"pkg/limiter/filestore", "pkg/limiter/layouts", "pkg/limiter/memorystore", "pkg/limiter/policy",
		"pkg/limiter/store",
	},
	"cmd/internal/outcome": {"internal/panics", "pkg/limiter/store"},
	"cmd/internal/files":   {"internal/readfile"},
	"cmd/internal/identity": {
		"cmd/internal/connect", "cmd/internal/storeurl", "internal/panics", "pkg/limiter/admin",
		"pkg/limiter/store",
	},
	"internal/sys": {},
	"cmd/internal/operation": {
		"cmd/internal/allowance", "cmd/internal/backup", "cmd/internal/connect", "cmd/internal/files",
		"cmd/internal/identity", "cmd/internal/outcome", "cmd/internal/output", "cmd/internal/auditlog",
		"internal/layers", "internal/overridetable", "internal/published", "internal/sys", "internal/texts", "pkg/limiter/admin",
		"pkg/limiter/layouts", "pkg/limiter/policy", "pkg/limiter/store",
	},
	"cmd/internal/output":   {"internal/textcut", "internal/texts"},
	"cmd/internal/junit":    {},
	"cmd/internal/markdown": {"cmd/internal/output"},
	"cmd/internal/report": {
		"cmd/internal/output", "pkg/limiter/store", "pkg/loadgen/audit",
	},
	"cmd/internal/report/show": {
		"cmd/internal/junit", "cmd/internal/markdown", "cmd/internal/output", "cmd/internal/report",
		"cmd/internal/report/chart",
	},
	"cmd/internal/report/compare": {
		"cmd/internal/junit", "cmd/internal/markdown", "cmd/internal/output", "cmd/internal/report",
		"cmd/internal/report/show", "pkg/limiter/store",
	},
	"cmd/internal/report/sample": {
		"cmd/internal/output", "cmd/internal/report", "internal/hostiletext", "pkg/loadgen/audit",
	},
	"cmd/internal/serve": {
		"cmd/internal/outcome", "cmd/internal/output", "cmd/internal/serve/refusal", "internal/panics", "internal/subjecttext",
		"internal/sys", "pkg/limiter/memorystore", "pkg/limiter/store",
	},
	"cmd/internal/serve/api": {
		"cmd/internal/allowance", "cmd/internal/decision", "cmd/internal/outcome", "cmd/internal/output", "cmd/internal/serve/engine",
		"cmd/internal/serve/refusal", "internal/panics", "internal/sys", "internal/texts", "pkg/limiter/admin", "pkg/limiter/httplimit",
		"pkg/limiter/policy", "pkg/limiter/store",
	},
	"cmd/internal/serve/engine": {
		"cmd/internal/decision", "internal/configfile", "internal/layers", "internal/subjecttext", "pkg/limiter/admin",
		"pkg/limiter/httplimit", "pkg/limiter/memorystore", "pkg/limiter/policy", "pkg/limiter/store",
	},
	"cmd/internal/serve/reload": {
		"cmd/internal/config", "internal/published", "pkg/limiter/policy", "pkg/limiter/store",
	},
	"cmd/internal/serve/events": {
		"cmd/internal/decision", "cmd/internal/serve/engine", "internal/layers", "pkg/limiter/policy",
		"pkg/limiter/store",
	},
	"cmd/internal/serve/refusal": {"cmd/internal/output"},
	"cmd/internal/serve/metrics": {
		"cmd/internal/decision", "cmd/internal/serve/engine", "internal/layers", "internal/published", "pkg/limiter/admin",
		"pkg/limiter/policy", "pkg/limiter/store",
	},
	"pkg/limiter":           {"internal/layers", "pkg/limiter/admin", "pkg/limiter/store"},
	"pkg/limiter/httplimit": {"internal/sys", "pkg/limiter", "pkg/limiter/policy", "pkg/limiter/store"},
	"cmd/internal/cost": {
		"cmd/internal/report", "cmd/internal/shell", "internal/redisserver", "pkg/limiter/admin",
		"pkg/limiter/store",
	},
	"cmd/internal/shell":           {"internal/texts"},
	"cmd/internal/storeurl":        {},
	"cmd/internal/auditlog":        {"cmd/internal/files", "internal/lines"},
	"cmd/internal/noterminalquery": {},
	"cmd/internal/naive":           {"internal/redisserver", "pkg/limiter/admin", "pkg/limiter/redisstore", "pkg/limiter/store"},
	"pkg/loadgen": {
		"internal/alarm", "internal/panics", "internal/sys", "pkg/limiter/policy", "pkg/limiter/store", "pkg/loadgen/audit",
		"pkg/loadgen/audit/interval", "pkg/loadgen/trace",
	},
	"pkg/loadgen/audit":          {"pkg/limiter/store"},
	"pkg/loadgen/audit/interval": {"pkg/limiter/store", "pkg/loadgen/audit"},
	"pkg/loadgen/trace":          {"internal/panics", "pkg/limiter/store"},
	"pkg/limiter/store": {
		"internal/calendar", "internal/panics", "internal/recordformat", "internal/spacesaving", "internal/subjecttext", "internal/sys",
		"internal/texts",
	},
	"internal/alarm":        {},
	"internal/calendar":     {},
	"internal/clusternodes": {},
	"internal/readfile":     {},
	"internal/texts":        {},
	"internal/lines":        {},
	"internal/mutants":      {"internal/panics"},
	"internal/manpages":     {"cmd"},
	"internal/redact":       {"internal/texts"},
	"internal/hostile":      {"internal/panics"},
	"internal/panics":       {},
	"internal/redisserver": {
		"internal/clusternodes", "internal/panics", "internal/redact", "internal/respguard", "internal/sys",
		"internal/texts", "pkg/limiter/admin", "pkg/limiter/store",
	},
	"internal/denialtable":   {"pkg/limiter/admin", "pkg/limiter/store"},
	"internal/overridetable": {"internal/subjecttext", "pkg/limiter/admin", "pkg/limiter/store"},
	"internal/published": {
		"internal/configfile", "internal/panics", "internal/spacesaving", "internal/texts", "internal/yamlfile", "pkg/limiter/admin",
		"pkg/limiter/policy", "pkg/limiter/store",
	},
	"internal/respguard":   {},
	"internal/spacesaving": {},
	"pkg/limiter/policy": {
		"internal/layers", "internal/subjecttext", "internal/texts", "pkg/limiter/admin", "pkg/limiter/store",
	},
	"pkg/limiter/filestore": {
		"internal/denialtable", "internal/overridetable", "internal/panics", "internal/readfile",
		"internal/recordformat", "pkg/limiter/admin", "pkg/limiter/store",
	},
	"pkg/limiter/memorystore": {
		"internal/denialtable", "internal/overridetable", "pkg/limiter/admin", "pkg/limiter/store",
	},
	"pkg/limiter/redisstore": {
		"internal/denialtable", "internal/overridetable", "internal/panics", "internal/redisserver", "lua",
		"pkg/limiter/admin", "pkg/limiter/layouts", "pkg/limiter/redisstore/internal/keyspace",
		"pkg/limiter/redisstore/internal/lanes", "pkg/limiter/store",
	},
	"pkg/limiter/redisstore/internal/keyspace": {
		"internal/panics", "internal/redisserver", "lua", "pkg/limiter/admin", "pkg/limiter/layouts",
		"pkg/limiter/redisstore/internal/lanes", "pkg/limiter/store",
	},
	"pkg/limiter/redisstore/internal/lanes": {
		"internal/panics", "internal/recordformat", "internal/redisserver", "lua", "pkg/limiter/admin",
		"pkg/limiter/store",
	},
	"pkg/limiter/storetest": {"internal/storecall", "pkg/limiter/admin", "pkg/limiter/store"},
	"pkg/limiter/layouts":   {"internal/recordformat", "internal/texts", "pkg/limiter/admin", "pkg/limiter/store"},
	"lua": {
		"internal/denialtable", "internal/overridetable", "internal/recordformat", "internal/texts",
		"pkg/limiter/admin", "pkg/limiter/store",
	},
	"internal/redistest":         {"internal/hostile", "internal/tier"},
	"docs/examples/http-service": {"pkg/limiter", "pkg/limiter/httplimit", "pkg/limiter/redisstore"},
	"docs/examples/worker":       {"pkg/limiter", "pkg/limiter/filestore"},
	"docs/examples/llm-gateway": {
		"pkg/limiter", "pkg/limiter/policy", "pkg/limiter/policyfile", "pkg/limiter/redisstore",
	},
	"internal/hostiletext":      {},
	"internal/textcut":          {},
	"internal/tier":             {},
	"internal/terminaltest":     {},
	"cmd/internal/report/chart": {"cmd/internal/output"},
	"internal/configfile": {
		"internal/layers", "internal/texts", "internal/yamlfile", "pkg/limiter/httplimit", "pkg/limiter/policy",
		"pkg/limiter/store",
	},
	"internal/stress":   {"internal/panics"},
	"internal/yamlfile": {"internal/redact", "internal/texts"},
	"pkg/limiter/policyfile": {
		"internal/configfile", "internal/layers", "internal/published", "internal/readfile", "internal/sys",
		"internal/yamlfile", "pkg/limiter", "pkg/limiter/admin", "pkg/limiter/httplimit", "pkg/limiter/memorystore",
		"pkg/limiter/policy", "pkg/limiter/store",
	},
	"cmd/internal/experiment": {
		"cmd/internal/connect", "cmd/internal/cost", "cmd/internal/endpoint", "cmd/internal/naive",
		"cmd/internal/output", "cmd/internal/probe/headers", "cmd/internal/report", "internal/layers", "internal/sys", "pkg/limiter/admin",
		"pkg/limiter/memorystore", "pkg/limiter/policy", "pkg/limiter/store", "pkg/loadgen", "pkg/loadgen/audit",
		"pkg/loadgen/audit/interval", "pkg/loadgen/trace",
	},
	"internal/subjecttext": {},
	"cmd/internal/serve/envoy": {
		"cmd/internal/decision", "cmd/internal/outcome", "cmd/internal/serve/engine", "cmd/internal/serve/grpc",
		"internal/configfile", "internal/rls", "pkg/limiter/httplimit", "pkg/limiter/policy", "pkg/limiter/store",
	},
	"internal/rls":            {},
	"cmd/internal/serve/grpc": {"internal/panics"},
	"cmd/internal/endpoint":   {"internal/panics", "internal/redact", "internal/rls", "internal/sys", "pkg/limiter/store"},
	"cmd/internal/probe": {
		"cmd/internal/endpoint", "cmd/internal/output", "cmd/internal/probe/headers", "internal/panics", "internal/sys",
		"pkg/limiter/store", "pkg/loadgen/audit", "pkg/loadgen/audit/interval",
	},
	"cmd/internal/probe/headers": {"cmd/internal/endpoint", "pkg/limiter/store", "pkg/loadgen/audit/interval"},
	"pkg/limiter/admin":          {"pkg/limiter/store"},
	"internal/recordformat":      {},
	"internal/storecall":         {"internal/layers", "pkg/limiter/store"},
	"internal/layers": {
		"internal/denialtable", "internal/panics", "internal/spacesaving", "internal/sys", "pkg/limiter/admin", "pkg/limiter/store",
	},
}

// drivers lists where a driver may be imported, so that importing one store does not import the dependencies of
// others.
var drivers = map[string][]string{
	"github.com/redis/go-redis/v9": {
		"pkg/limiter/redisstore", "pkg/limiter/redisstore/internal/keyspace", "pkg/limiter/redisstore/internal/lanes",
		"internal/redisserver", "internal/redistest", "cmd/internal/connect",
		"cmd/internal/doctor", "cmd/internal/cost", "cmd/internal/naive", "cmd/internal/experiment",
		"docs/examples/http-service", "docs/examples/llm-gateway",
	},
	"modernc.org/sqlite":                  {"pkg/limiter/filestore"},
	"golang.org/x/net":                    {"cmd/internal/serve/grpc"},
	"google.golang.org/protobuf":          {"internal/rls", "cmd/internal/serve/grpc"},
	"github.com/prometheus/client_golang": {"cmd/internal/serve/metrics"},
	"github.com/spf13/cobra": {
		"cmd", "internal/manpages", "cmd/internal/cli", "cmd/internal/dashboard", "cmd/internal/decide", "cmd/internal/history",
		"cmd/internal/keys", "cmd/internal/lab", "cmd/internal/override", "cmd/internal/publish", "cmd/internal/server",
		"cmd/internal/setup",
	},
	"github.com/olekukonko/tablewriter": {"cmd/internal/output"},
	"github.com/HdrHistogram/hdrhistogram-go": {
		"cmd/internal/endpoint", "cmd/internal/report", "cmd/internal/report/compare", "cmd/internal/report/sample",
		"cmd/internal/report/show", "cmd/internal/serve/metrics", "pkg/loadgen",
	},
	"github.com/charmbracelet": {"cmd/internal/dash", "cmd/internal/dash/guard", "cmd/internal/dash/source"},
	"encoding/csv":             {"cmd/internal/output", "pkg/loadgen/trace"},
	"github.com/goccy/go-yaml": {"internal/yamlfile"},
	"github.com/itchyny/gojq":  {"cmd/internal/output"},
	"pgregory.net/rapid":       {"pkg/limiter/storetest"},
	"testing": {
		"cmd/internal/clitest", "pkg/limiter/storetest", "internal/redistest", "internal/hostile",
		"internal/tier",
	},
}

// systemPlaces may import os. Everything else gets what it needs as arguments.
var systemPlaces = []string{
	"", "cmd", "cmd/internal/clitest", "cmd/internal/files", "cmd/internal/noterminalquery", "internal/readfile",
	"pkg/limiter/filestore", "internal/redistest", "internal/terminaltest",
	"internal/alarm", "internal/mutants", "internal/manpages", "internal/stress", "docs/examples/worker",
}

// Imports point one way: main → cmd → cmd/internal → pkg/limiter → internal/layers → pkg/limiter/admin →
// pkg/limiter/store → a few of internal.
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
			if imported == "os" && !slices.Contains(systemPlaces, name) {
				t.Errorf("%q imports os", name)
			}
		}
	}
}

// In cmd only the entrance uses the system; commands use Env.
func TestCommandsReachNoSystem(t *testing.T) {
	paths, err := filepath.Glob("cmd/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if path == filepath.Join("cmd", "main.go") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range file.Imports {
			if imported.Path.Value == `"os"` {
				t.Errorf("%s imports os; what it needs belongs in Env", path)
			}
		}
	}
}

// The dependencies of a service that imports one store.
func TestAStorePullsInNoOthersDependencies(t *testing.T) {
	withoutOthers := []string{
		"internal/layers", "pkg/limiter", "pkg/limiter/admin", "pkg/limiter/memorystore", "pkg/limiter/policy", "pkg/limiter/store",
	}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, dependency := range p.Deps {
			if slices.Contains(withoutOthers, name) {
				if first, _, _ := strings.Cut(dependency, "/"); strings.Contains(first, ".") && !strings.HasPrefix(dependency, module) {
					t.Errorf("%q depends on %s; it needs the standard library only", name, dependency)
				}
			}
		}
	}
}

// The order of the wrappers around a store is a decision, and layers.Stack makes it. So nobody wraps a store by hand:
// a wrapper is called only in a function of one store that a Stack gets as a field.
func TestOnlyAStackWrapsStores(t *testing.T) {
	wrapper := func(e ast.Expr) bool {
		call, is := e.(*ast.CallExpr)
		if !is {
			return false
		}
		name, is := call.Fun.(*ast.SelectorExpr)
		if !is || !strings.HasPrefix(name.Sel.Name, "With") {
			return false
		}
		of, is := name.X.(*ast.Ident)
		return is && of.Name == "layers"
	}
	calls := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "docs") {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		given := map[ast.Expr]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			if f, is := n.(*ast.FuncLit); is && f.Type.Params.NumFields() == 1 {
				for _, statement := range f.Body.List {
					if result, is := statement.(*ast.ReturnStmt); is && len(result.Results) == 1 && wrapper(result.Results[0]) {
						inner, is := result.Results[0].(*ast.CallExpr).Args[0].(*ast.Ident)
						given[result.Results[0]] = is && inner.Name == f.Type.Params.List[0].Names[0].Name
					}
				}
			}
			if e, is := n.(ast.Expr); is && wrapper(e) {
				calls++
				if !given[e] {
					t.Errorf("%s: wraps a store by hand; give layers.Stack a function that does", fset.Position(e.Pos()))
				}
			}
			return true
		})
		return nil
	})
	if err != nil || calls < 8 {
		t.Errorf("%d calls of wrappers, %v", calls, err)
	}
}

// A command or a flag that is printed with a value in it gets pasted, so shell.Command writes it. An error that
// only names a flag begins with its name.
func TestHintsAreWrittenByShellCommand(t *testing.T) {
	unquoted := regexp.MustCompile(`"[^"]+(--[a-z-]+[ =]%[svq]|(limitctl|redis-cli) [a-z-]+ %[svq]|redis://%s|file:%s)|` +
		`(--[a-z-]+[ =]|limitctl [a-z]+ |redis-cli [^"]*|ACL SETUSER [^"]*)" ?\+`)
	known := []string{
		`"--user-data-dir="+profile`,          // not printed
		`"--on-error " + onError`,             // one of three words
		`(ACL SETUSER … +" + strings.ToLower`, // not a command, and only our own words
		`"; see --layout " + layouts`,         // names of layouts have letters, digits, - and _
	}
	n := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "docs") {
			return err
		}
		text, err := os.ReadFile(path)
		n++
		for i, line := range strings.Split(string(text), "\n") {
			if unquoted.MatchString(line) && !slices.ContainsFunc(known, func(k string) bool { return strings.Contains(line, k) }) {
				t.Errorf("%s:%d prints a command by hand; shell.Command makes it safe to paste:%s", path, i+1, line)
			}
		}
		return err
	})
	if err != nil || n < 100 {
		t.Errorf("%d files, %v", n, err)
	}
}

// A file is short enough to read in one go, and its lines fit on a screen. Tests may be longer, but not wider.
func TestFilesFitAScreenAndASitting(t *testing.T) {
	const widest, longest = 140, 600
	files := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".lua") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		if len(lines) > longest && !strings.HasSuffix(path, "_test.go") {
			t.Errorf("%s has %d lines; what has two reasons to change should be two files, and at most %d are allowed", path, len(lines),
				longest)
		}
		for i, line := range lines {
			if n := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t"); n > widest { // a tab takes four columns
				t.Errorf("%s:%d has %d columns, and at most %d are allowed", path, i+1, n, widest)
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Errorf("%d files, %v", files, err)
	}
}

// What is compiled or parsed during initialization delays every command, whether it needs it or not.
func TestNothingIsParsedBeforeItIsUsed(t *testing.T) {
	parsed := regexp.MustCompile(`^(var [a-zA-Z]+|\t[a-zA-Z]+ +)(, [a-zA-Z]+)* = (regexp\.MustCompile|template\.Must)\(`)
	files := 0
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "docs") {
			return err
		}
		text, err := os.ReadFile(path)
		files++
		for i, line := range strings.Split(string(text), "\n") {
			if parsed.MatchString(line) {
				t.Errorf("%s:%d is parsed in every command; texts.Regexp or sync.OnceValue does it at the first use:%s", path, i+1, line)
			}
		}
		return err
	})
	if err != nil || files < 100 {
		t.Errorf("%d files, %v", files, err)
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
