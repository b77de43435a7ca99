//go:build unix

package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/tier"
)

const monitoring = "../docs/monitoring/"

// grafana is what a test looks at of a dashboard.
type grafana struct {
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []grafanaPanel
}

type grafanaPanel struct {
	ID          int
	Type, Title string
	Description string
	Datasource  map[string]string
	FieldConfig struct{ Defaults struct{ Unit string } }
	Targets     []struct{ RefID, Expr, LegendFormat string }
}

func readDashboard(t *testing.T) *grafana {
	t.Helper()
	text, err := os.ReadFile(monitoring + "dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d grafana
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return &d
}

// A dashboard that can be read: every panel has a unit, an explanation, and takes its data source, job
// and policy from variables.
func TestTheDashboardIsWhole(t *testing.T) {
	d := readDashboard(t)
	variables := map[string]bool{}
	for _, v := range d.Templating.List {
		variables[v.Name] = true
	}
	for _, name := range []string{"datasource", "job", "instance", "policy"} {
		if !variables[name] {
			t.Errorf("no variable %s", name)
		}
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.Title == "" {
			t.Errorf("panel %d %q has no title, or its number is taken", p.ID, p.Title)
		}
		ids[p.ID] = true
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource["uid"] != "${datasource}" ||
			len(p.Targets) == 0 {
			t.Errorf("%s lacks a description, a unit, the variable data source or a query", p.Title)
		}
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, `job=~"$job",instance=~"$instance"`) || p.Type == "timeseries" &&
				target.LegendFormat == "" {
				t.Errorf("%s: %q does not ask for the variables' job, or has no legend", p.Title, target.Expr)
			}
		}
	}
}

// The rules, their tests, the sample of a configuration and the queries of the dashboard, by Prometheus' own tool.
func TestTheAlertsPassTheirTests(t *testing.T) {
	tier.Full(t, "Prometheus")
	asked := "groups:\n- name: dashboard\n  rules:\n"
	for _, query := range queries(readDashboard(t)) {
		asked += fmt.Sprintf("  - {record: asked, expr: %q, labels: {n: %q}}\n", query, query)
	}
	dashboard := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(dashboard, []byte(asked), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"check", "config", "prometheus.yml"}, {"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"},
		{"check", "rules", dashboard},
	} {
		check := exec.Command("promtool", args...)
		check.Dir = monitoring
		if output, err := check.CombinedOutput(); err != nil {
			t.Errorf("promtool %q: %s\n%s", args, err, output)
		}
	}
	rules, err := os.ReadFile(monitoring + "alerts.yml")
	tests, err2 := os.ReadFile(monitoring + "alerts_test.yml")
	page, err3 := os.ReadFile(monitoring + "README.md")
	if err != nil || err2 != nil || err3 != nil {
		t.Fatal(err, err2, err3)
	}
	alerts := regexp.MustCompile(`- alert: (\w+)`).FindAllSubmatch(rules, -1)
	if len(alerts) < 10 {
		t.Errorf("%d alerts", len(alerts))
	}
	for _, alert := range alerts {
		if !bytes.Contains(tests, append([]byte("alertname: "), alert[1]...)) ||
			!bytes.Contains(page, append([]byte("| "), alert[1]...)) {
			t.Errorf("%s has no test, or the page does not say what to do", alert[1])
		}
	}
}

const monitoredConfiguration = `
breaker: {failures: 5}
policies:
  login:
    http:
      attributes: {ip: client, everybody: "value:all"}
    on_error: local
    limits:
      - {name: ip, by: [ip], limit: 5/1m}
      - {name: all, by: [everybody], limit: 1000/1m}
`

// A server tells every metric that the dashboard and the alerts ask for, and none names a subject.
func TestAServerTellsWhatIsAsked(t *testing.T) {
	t.Parallel()
	s := serveFile(t, monitoredConfiguration, "--store", "memory:", "--config", "limitctl.yaml")
	for range 8 {
		s.body("http", "/v1/consume", `{"policy":"login","attributes":{"ip":"192.0.2.1","everybody":"all"}}`)
	}
	rules, err := os.ReadFile(monitoring + "alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	asked := strings.Join(queries(readDashboard(t)), "\n")
	for line := range strings.Lines(string(rules)) {
		if !strings.Contains(line, "runbook:") && !strings.Contains(line, "name:") && !strings.Contains(line, "#") {
			asked += line
		}
	}
	names := map[string]bool{}
	for _, found := range regexp.MustCompile(`\b(limitctl_\w+)`).FindAllStringSubmatch(asked, -1) {
		names[found[1]] = found[1] != "limitctl_denials" // of a recording rule
	}
	if len(names) < 10 {
		t.Errorf("%d names", len(names))
	}
	told := ""
	for name, is := range names {
		s.until("the server tells "+name, func() bool { // the share in use is asked of the store now and then
			told = s.get("admin", "/metrics")
			return !is || regexp.MustCompile(`(?m)^`+name+`[{ ]`).MatchString(told)
		})
	}
	if strings.Contains(told, "192.0.2.1") {
		t.Error("a metric names a subject")
	}
	s.end()
}

// queries are those of a dashboard, with values for its variables.
func queries(d *grafana) (all []string) {
	variables := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*", "$policy", ".*")
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			all = append(all, variables.Replace(target.Expr))
		}
	}
	return all
}
