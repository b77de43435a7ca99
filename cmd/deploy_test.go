package cmd

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
)

func deployFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "docs", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// deployedServe reads the words of a serve command as the command itself does.
func deployedServe(t *testing.T, words []string) (*cobra.Command, func(name string) string) {
	t.Helper()
	if len(words) == 0 || words[0] != "serve" {
		t.Fatalf("%q is not serve", words)
	}
	cmd, args, err := newRootCmd(&cli.Globals{Env: newWorld(t).Env}).Find(words)
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags(args); err != nil || len(cmd.Flags().Args()) > 0 {
		t.Fatalf("%q: %v; left are %q", words, err, cmd.Flags().Args())
	}
	return cmd, func(name string) string { return cmd.Flags().Lookup(name).Value.String() }
}

// checkGrace wants that who stops the server waits longer than its drain takes, which waits
// longer than its delay.
func checkGrace(t *testing.T, what string, grace time.Duration, flag func(string) string) {
	t.Helper()
	drain, err := time.ParseDuration(flag("drain"))
	delay, err2 := time.ParseDuration(flag("drain-delay"))
	if err != nil || err2 != nil || grace <= drain || drain <= delay {
		t.Errorf("%s is stopped after %s; it drains for %s, of that %s with its listeners open", what, grace, drain,
			delay)
	}
}

// checkPolicies wants a configuration without a mistake.
func checkPolicies(t *testing.T, text string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "limitctl.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	newWorld(t).run(t, exitYes, "config", "validate", "--config", path)
}

func TestDeployedPolicies(t *testing.T) { checkPolicies(t, deployFile(t, "limitctl.yaml")) }

func TestDeployByContainer(t *testing.T) {
	text := deployFile(t, "Containerfile")
	command := regexp.MustCompile(`(?m)^CMD (\[.*\])$`).FindStringSubmatch(text)
	var words []string
	if command == nil || json.Unmarshal([]byte(command[1]), &words) != nil {
		t.Fatalf("CMD is %q", command)
	}
	_, flag := deployedServe(t, words)
	for _, listener := range []string{"listen", "admin"} {
		if _, port, _ := strings.Cut(flag(listener), ":"); !regexp.MustCompile(
			`(?m)^EXPOSE .*\b` + port + `\b`).MatchString(text) {
			t.Errorf("port %s of --%s is not exposed", port, listener)
		}
	}
}

// yamlAt is the value at a path of a document, which has to be there.
func yamlAt[T any](t *testing.T, text, path string) (value T) {
	t.Helper()
	at, err := yaml.PathString("$." + path)
	if err == nil {
		err = at.Read(strings.NewReader(text), &value)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return value
}

func TestDeployByCompose(t *testing.T) {
	text := deployFile(t, "compose.yaml")
	const service = "services.limitctl."
	_, flag := deployedServe(t, yamlAt[[]string](t, text, service+"command"))
	grace, err := time.ParseDuration(yamlAt[string](t, text, service+"stop_grace_period"))
	if err != nil {
		t.Fatal(err)
	}
	checkGrace(t, "the service", grace, flag)
	build := yamlAt[struct{ Context, Dockerfile string }](t, text, service+"build")
	if _, err := os.Stat(filepath.Join("..", "docs", "deploy", build.Context, build.Dockerfile)); err != nil {
		t.Error(err)
	}
	for _, port := range yamlAt[[]string](t, text, service+"ports") {
		if !strings.HasPrefix(port, "127.0.0.1:") {
			t.Errorf("%s is published to the network", port)
		}
	}
	url := yamlAt[string](t, text, service+"environment.LIMITCTL_STORE")
	host := strings.TrimSuffix(strings.TrimPrefix(url, "redis://"), ":6379")
	if yamlAt[string](t, text, "services."+host+".image") == "" ||
		!slices.Contains(yamlAt[[]string](t, text, service+"depends_on"), host) {
		t.Errorf("the store %s is not a service", host)
	}
}

func TestDeployBySystemd(t *testing.T) {
	text := deployFile(t, "limitctl.service")
	value := func(name string) string {
		t.Helper()
		found := regexp.MustCompile(`(?m)^` + name + `=(.*)$`).FindStringSubmatch(text)
		if found == nil {
			t.Fatalf("%s is not there", name)
		}
		return found[1]
	}
	words := strings.Fields(value("ExecStart"))
	cmd, flag := deployedServe(t, words[1:])
	if got, want := value("ExecStartPre"), value("ExecStart")+" --check-config"; got != want {
		t.Errorf("what starts is checked by %q, and not by %q", got, want)
	}
	grace, err := time.ParseDuration(value("TimeoutStopSec") + "s")
	if err != nil {
		t.Fatal(err)
	}
	checkGrace(t, "the unit", grace, flag)
	if state := value("Environment=XDG_STATE_HOME") + "/" + value("StateDirectory"); state != "/var/lib/limitctl" {
		t.Errorf("the state is in %s", state)
	}
	if got := cmd.Flags().Lookup("config").Value.String(); got != "/etc/limitctl/limitctl.yaml" {
		t.Errorf("the configuration is %s", got)
	}
}

func TestDeployByKubernetes(t *testing.T) {
	objects := map[string]string{}
	for _, document := range strings.Split(deployFile(t, "kubernetes.yaml"), "\n---\n") {
		objects[yamlAt[string](t, document, "kind")] = document
	}
	checkPolicies(t, yamlAt[map[string]string](t, objects["ConfigMap"], "data")["limitctl.yaml"])
	const pod = "spec.template.spec."
	const container = pod + "containers[0]."
	deployment, service := objects["Deployment"], objects["Service"]
	text := func(path string) string { return yamlAt[string](t, deployment, path) }
	number := func(path string) time.Duration { return time.Duration(yamlAt[int](t, deployment, path)) }
	_, flag := deployedServe(t, yamlAt[[]string](t, deployment, container+"args"))
	checkGrace(t, "the pod", number(pod+"terminationGracePeriodSeconds")*time.Second, flag)
	ports := map[string]string{}
	type port struct {
		Name          string
		ContainerPort int    `yaml:"containerPort"`
		TargetPort    string `yaml:"targetPort"`
		Port          int
	}
	for _, p := range yamlAt[[]port](t, deployment, container+"ports") {
		ports[p.Name] = fmt.Sprintf("0.0.0.0:%d", p.ContainerPort)
	}
	if ports["http"] != flag("listen") || ports["admin"] != flag("admin") || ports["grpc"] != flag("grpc") {
		t.Errorf("the ports are %v", ports)
	}
	for probe, path := range map[string]string{"livenessProbe": "/healthz", "readinessProbe": "/readyz"} {
		if text(container+probe+".httpGet.path") != path || text(container+probe+".httpGet.port") != "admin" {
			t.Errorf("the %s does not ask for %s", probe, path)
		}
	}
	// Whoever asks sees that the server drains while it still takes connections.
	delay, err := time.ParseDuration(flag("drain-delay"))
	const readiness = container + "readinessProbe."
	if err != nil || number(readiness+"periodSeconds")*number(readiness+"failureThreshold")*time.Second >= delay {
		t.Errorf("the delay of %s is over before the probe sees it", delay)
	}
	if flag("config") != text(container+"volumeMounts[0].mountPath")+"/limitctl.yaml" ||
		text(container+"volumeMounts[0].name") != text(pod+"volumes[0].name") ||
		text(pod+"volumes[0].configMap.name") != yamlAt[string](t, objects["ConfigMap"], "metadata.name") {
		t.Errorf("the configuration is %s, and something else is mounted", flag("config"))
	}
	if app := yamlAt[string](t, service, "spec.selector.app"); text("spec.template.metadata.labels.app") != app {
		t.Errorf("the service selects %s", app)
	}
	for i, name := range []string{"http", "grpc"} {
		p := yamlAt[[]port](t, service, "spec.ports")[i]
		if p.TargetPort != name || ports[name] != fmt.Sprintf("0.0.0.0:%d", p.Port) {
			t.Errorf("the service has %+v of %v", p, ports)
		}
	}
}

// The action divides its arguments at blanks outside of quotes, or takes a line for each. It has the exit code of
// limitctl.
func TestActionRuns(t *testing.T) {
	dir := t.TempDir()
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir+"/limitctl-action", 0o700); err != nil {
		t.Fatal(err)
	}
	write(dir+"/limitctl-action/limitctl", "#!/bin/sh\nprintf '[%s]' \"$@\" \"${LIMITCTL_STORE-none}\"\nexit 3\n")
	for _, test := range []struct {
		args, store, want string
		code              int
	}{
		{"loadtest --threshold 'p99<5s' --limit 3/1h", "left out",
			"[-o][json][loadtest][--threshold][p99<5s][--limit][3/1h][none]", 3},
		{"run x\n--\necho 'hi' *\n", "redis://r", "[-o][json][run x][--][echo 'hi' *][redis://r]", 3},
		{`run u -- rm "" x`, "redis://r", "[-o][json][run][u][--][rm][][x][redis://r]", 3},
		{"config validate", "", "[-o][json][config][validate][]", 3},
		{"  ", "left out", "", 2}, // an expression that came to nothing must not be the help, which is a success
		{"check it's", "left out", "", 2},
	} {
		write(dir+"/output", "")
		run := exec.Command("sh", "../docs/deploy/action.sh", "run")
		run.Env = []string{"PATH=" + os.Getenv("PATH"), "RUNNER_TEMP=" + dir, "GITHUB_OUTPUT=" + dir + "/output",
			"LIMITCTL_ARGS=" + test.args, "GIVEN_STORE=" + test.store}
		shown, err := run.Output()
		if string(shown) != test.want || run.ProcessState.ExitCode() != test.code {
			t.Errorf("%q: %v, and it prints %s", test.args, err, shown)
		}
		if test.code == 2 {
			continue
		}
		if answer, err := os.ReadFile(dir + "/output"); err != nil ||
			!strings.Contains(string(answer), "\n"+test.want) {
			t.Errorf("%q: the output is %q (%v)", test.args, answer, err)
		}
	}
}
