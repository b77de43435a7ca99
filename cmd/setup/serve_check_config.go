package setup

import (
	"strings"

	"github.com/limitctl/limitctl/internal/config"
	"github.com/limitctl/limitctl/internal/output"
	"github.com/limitctl/limitctl/internal/published"
	"github.com/limitctl/limitctl/internal/serve"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// checked answers --check-config. Flags and files are read and have no mistake, and backend is not connected to; where is its
// name.
func (f *serveFrame) checked(c *config.Config, backend store.Store, where string) error {
	o := f.flags
	if o.FromStore() {
		if _, err := published.TableOf(backend); err != nil {
			return err
		}
	}
	answer := &checkAnswer{SchemaVersion: output.SchemaVersion, Valid: true, Files: c.Read, Policies: len(c.Policies), Store: where,
		Addresses: map[string]string{}}
	for _, name := range []string{"http", "grpc", "admin"} {
		address := map[string]*serve.Address{"http": f.listen, "grpc": f.grpc, "admin": f.admin}[name]
		if address == nil {
			continue
		}
		answer.Addresses[name] = address.String()
		if l := f.door(name, address); !address.IsLocal() {
			for _, lacks := range l.Lacks() {
				o.Warn(name + " at " + address.String() + ": " + lacks)
			}
		}
	}
	for _, r := range c.Remarks {
		o.Warn(r.String())
	}
	return o.Print(answer)
}

// checkAnswer is what serve would start with.
type checkAnswer struct {
	SchemaVersion int               `json:"schema_version"`
	Valid         bool              `json:"valid"`
	Files         []string          `json:"files,omitempty"` // that the configuration is read from
	Policies      int               `json:"policies"`
	Store         string            `json:"store"`
	Addresses     map[string]string `json:"addresses"` // by listener
}

// Records implements output.Answer.
func (a *checkAnswer) Records() [][]string {
	return (&serveAnswer{Addresses: a.Addresses}).Records()
}

// Print implements output.Answer.
func (a *checkAnswer) Print(p *output.Printer) {
	from := ""
	if len(a.Files) > 0 {
		from = " of " + strings.Join(a.Files, ", ")
	}
	p.Line("%s: %s%s, limits in %s", p.Paint(output.Calm, "✓ valid"), output.Counted(a.Policies, "policy", "policies"), from, a.Store)
	for _, row := range a.Records()[1:] {
		p.Line("  %s at %s", row[0], row[1])
	}
}
