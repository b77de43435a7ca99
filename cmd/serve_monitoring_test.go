//go:build unix

package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

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
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource["uid"] != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%s lacks a description, a unit, the variable data source or a query", p.Title)
		}
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, `job=~"$job",instance=~"$instance"`) || p.Type == "timeseries" && target.LegendFormat == "" {
				t.Errorf("%s: %q does not ask for the variables' job, or has no legend", p.Title, target.Expr)
			}
		}
	}
}

// The rules, their tests and the sample of a configuration, by Prometheus' own tool.
func TestTheAlertsPassTheirTests(t *testing.T) {
	tier.Full(t, "Prometheus")
	for _, args := range [][]string{
		{"check", "config", "prometheus.yml"}, {"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"},
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

// A real Prometheus scrapes a real server, evaluates the rules, and answers each query of the dashboard with data.
func TestPrometheusAnswersTheDashboard(t *testing.T) {
	t.Parallel()
	c := newChild(t, "serve", "--store", "memory:", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "-o", "jsonl",
		"--config", "limitctl.yaml")
	c.file("limitctl.yaml", monitoredConfiguration)
	s := c.serving()
	prometheus := startPrometheus(t, s.addresses["admin"])
	consume := func() {
		for range 8 {
			r, err := http.Post(s.url("http", "/v1/consume"), "application/json",
				strings.NewReader(`{"policy":"login","attributes":{"ip":"192.0.2.1","everybody":"all"}}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
		}
	}
	consume()
	var missing []string
	for began := time.Now(); time.Since(began) < childPatience; time.Sleep(200 * time.Millisecond) {
		consume()
		if missing = prometheus.missing(readDashboard(t)); len(missing) == 0 && strings.Contains(s.get("admin", "/metrics"), "192.0.2.1") {
			break
		}
	}
	for _, query := range missing {
		t.Errorf("no data: %s", query)
	}
	prometheus.checkRules()
	checkNames(t, s)
	s.end()
}

// prometheus is a server of the test's own.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus starts one that scrapes the target with the rules of the docs, each second.
func startPrometheus(t *testing.T, target string) *prometheus {
	t.Helper()
	tier.Full(t, "Prometheus")
	dir := t.TempDir()
	config, err := os.ReadFile(monitoring + "prometheus.yml")
	rules, err2 := os.ReadFile(monitoring + "alerts.yml")
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	config = bytes.ReplaceAll(config, []byte("127.0.0.1:9090"), []byte(target))
	config = bytes.ReplaceAll(config, []byte("15s"), []byte("1s"))
	for name, text := range map[string][]byte{"prometheus.yml": config, "alerts.yml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	run := exec.Command("prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0")
	run.Dir, run.Stderr = dir, log
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	said := func() []byte {
		text, err := os.ReadFile(log.Name())
		if err != nil {
			t.Error(err)
		}
		return text
	}
	t.Cleanup(func() {
		run.Process.Kill()
		run.Wait()
		if t.Failed() {
			t.Logf("prometheus: %s", said())
		}
	})
	p := &prometheus{t: t}
	for began := time.Now(); time.Since(began) < childPatience; time.Sleep(50 * time.Millisecond) {
		listens := regexp.MustCompile(`msg="Listening on".* address=(\S+)`).FindSubmatch(said())
		if listens == nil {
			continue
		}
		p.url = "http://" + string(listens[1])
		if r, err := http.Get(p.url + "/-/ready"); err == nil {
			r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return p
			}
		}
	}
	t.Fatal("prometheus is not ready")
	return nil
}

// get asks the API, and decodes the data of its answer.
func (p *prometheus) get(path string, data any) {
	p.t.Helper()
	r, err := http.Get(p.url + path)
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil || answer.Status != "success" {
		p.t.Fatalf("%s: %v %s", path, err, answer.Error)
	}
}

// missing are the queries of a dashboard that have no data. One that is wrong fails the test.
func (p *prometheus) missing(d *grafana) (missing []string) {
	p.t.Helper()
	variables := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*", "$policy", ".*")
	for _, panel := range d.Panels {
		for _, target := range panel.Targets {
			query := variables.Replace(target.Expr)
			var data struct{ Result []json.RawMessage }
			p.get("/api/v1/query?query="+url.QueryEscape(query), &data)
			if len(data.Result) == 0 {
				missing = append(missing, panel.Title+": "+query)
			}
		}
	}
	return missing
}

// checkRules wants every rule evaluated, without an error, and no alarm about a server that is well.
func (p *prometheus) checkRules() {
	p.t.Helper()
	type rule struct{ Name, Health, State, LastError, LastEvaluation string }
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		var data struct{ Groups []struct{ Rules []rule } }
		p.get("/api/v1/rules", &data)
		rules, wrong := 0, ""
		for _, group := range data.Groups {
			for _, r := range group.Rules {
				rules++
				if r.Health != "ok" || r.State == "firing" {
					wrong = fmt.Sprintf("%+v", r)
				}
			}
		}
		if rules >= 10 && wrong == "" {
			return
		}
		if time.Since(began) > childPatience {
			p.t.Errorf("%d rules; %s", rules, wrong)
			return
		}
	}
}

// checkNames wants every metric that the alerts ask for in what a server tells.
func checkNames(t *testing.T, s *served) {
	t.Helper()
	told := s.get("admin", "/metrics")
	if strings.Contains(told, "192.0.2.1") {
		t.Error("a metric names a subject")
	}
	var asked strings.Builder
	rules, err := os.ReadFile(monitoring + "alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(rules)) {
		if !strings.Contains(line, "runbook:") && !strings.Contains(line, "name:") && !strings.Contains(line, "#") {
			asked.WriteString(line)
		}
	}
	names := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?:\W)(limitctl_\w+)`).FindAllStringSubmatch(asked.String(), -1) {
		names[found[1]] = true
	}
	if len(names) < 10 {
		t.Errorf("%d names", len(names))
	}
	for name := range names {
		if name == "limitctl_denials" { // of a recording rule
			continue
		}
		if !regexp.MustCompile(`(?m)^` + name + `[{ ]`).MatchString(told) {
			t.Errorf("the server does not tell %s", name)
		}
	}
}
