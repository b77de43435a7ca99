package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/cmd/internal/cli"
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
		t.Errorf("%s is stopped after %s; it drains for %s, of that %s with its listeners open", what, grace, drain, delay)
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
		if _, port, _ := strings.Cut(flag(listener), ":"); !regexp.MustCompile(`(?m)^EXPOSE .*\b` + port + `\b`).MatchString(text) {
			t.Errorf("port %s of --%s is not exposed", port, listener)
		}
	}
	for _, line := range []string{
		"CGO_ENABLED=0 go build", "\nUSER 65532:65532\n", "\nENTRYPOINT [\"/usr/bin/limitctl\"]\n", "\nFROM scratch\n",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("%q is not there", line)
		}
	}
}

func TestDeployByCompose(t *testing.T) {
	type service struct {
		Build       struct{ Context, Dockerfile string }
		Image       string
		Command     []string
		Environment map[string]string
		Volumes     []string
		Ports       []string
		DependsOn   []string `yaml:"depends_on"`
		Restart     string
		ReadOnly    bool     `yaml:"read_only"`
		CapDrop     []string `yaml:"cap_drop"`
		SecurityOpt []string `yaml:"security_opt"`
		StopGrace   string   `yaml:"stop_grace_period"`
	}
	var file struct{ Services map[string]service }
	if err := yaml.UnmarshalWithOptions([]byte(deployFile(t, "compose.yaml")), &file, yaml.Strict()); err != nil {
		t.Fatal(yaml.FormatError(err, false, true))
	}
	s := file.Services["limitctl"]
	_, flag := deployedServe(t, s.Command)
	grace, err := time.ParseDuration(s.StopGrace)
	if err != nil {
		t.Fatal(err)
	}
	checkGrace(t, "the service", grace, flag)
	if _, err := os.Stat(filepath.Join("..", "docs", "deploy", s.Build.Context, s.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
	for _, port := range s.Ports {
		if !strings.HasPrefix(port, "127.0.0.1:") {
			t.Errorf("%s is published to the network", port)
		}
	}
	if host := strings.TrimSuffix(strings.TrimPrefix(s.Environment["LIMITCTL_STORE"], "redis://"),
		":6379"); file.Services[host].Image == "" ||
		!slices.Contains(s.DependsOn, host) {
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
	if value("ExecReload") != "/bin/kill -HUP $MAINPID" || value("DynamicUser") != "yes" || value("ProtectSystem") != "strict" {
		t.Error("the unit is not what the page says")
	}
}

// The socket's unit starts the service at the address that it names, and its lines for the service are right.
func TestDeployByASocket(t *testing.T) {
	text := deployFile(t, "limitctl.socket")
	for _, want := range []string{"ListenStream=127.0.0.1:8080\n", "FileDescriptorName=http\n", "Service=limitctl.service\n"} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("%q is not there", want)
		}
	}
	start := regexp.MustCompile(`(?m)^# +ExecStart=(limitctl .*)$`).FindStringSubmatch(text)
	if start == nil {
		t.Fatal("nothing says how to start the service")
	}
	service := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(deployFile(t, "limitctl.service"))
	if want := strings.Replace(service[1], " serve ", " serve --listen systemd:http ", 1); start[1] != want {
		t.Errorf("the service is started by %s, not by %s", start[1], want)
	}
	deployedServe(t, strings.Fields(start[1])[1:])
}

// manifest is as much of a Kubernetes object as the manifests use; a field that is misspelled is
// not one of it.
type manifest struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct {
		Name   string
		Labels map[string]string
	}
	Data map[string]string
	Spec struct {
		Replicas int
		Selector map[string]any
		Ports    []struct {
			Name       string
			Port       int
			TargetPort string `yaml:"targetPort"`
			Protocol   string `yaml:"appProtocol"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     podSpec
		}
	}
}

type podProbe struct {
	HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
	PeriodSeconds    int                         `yaml:"periodSeconds"`
	FailureThreshold int                         `yaml:"failureThreshold"`
}

type podSpec struct {
	Automount       *bool `yaml:"automountServiceAccountToken"`
	Grace           int   `yaml:"terminationGracePeriodSeconds"`
	SecurityContext struct {
		RunAsNonRoot   bool              `yaml:"runAsNonRoot"`
		RunAsUser      int               `yaml:"runAsUser"`
		SeccompProfile map[string]string `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Containers []struct {
		Name, Image string
		Args        []string
		Env         []struct{ Name, Value string }
		Ports       []struct {
			Name          string
			ContainerPort int `yaml:"containerPort"`
		}
		LivenessProbe   podProbe `yaml:"livenessProbe"`
		ReadinessProbe  podProbe `yaml:"readinessProbe"`
		Resources       map[string]map[string]string
		SecurityContext struct {
			Escalation   bool                `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRoot bool                `yaml:"readOnlyRootFilesystem"`
			Capabilities map[string][]string `yaml:"capabilities"`
		} `yaml:"securityContext"`
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
			ReadOnly  bool   `yaml:"readOnly"`
		} `yaml:"volumeMounts"`
	}
	Volumes []struct {
		Name      string
		ConfigMap struct{ Name string } `yaml:"configMap"`
	}
}

func TestDeployByKubernetes(t *testing.T) {
	objects := map[string]manifest{}
	for _, document := range strings.Split(deployFile(t, "kubernetes.yaml"), "\n---\n") {
		var m manifest
		if err := yaml.NewDecoder(bytes.NewReader([]byte(document)), yaml.Strict()).Decode(&m); err != nil {
			t.Fatal(yaml.FormatError(err, false, true))
		}
		objects[m.Kind] = m
	}
	checkPolicies(t, objects["ConfigMap"].Data["limitctl.yaml"])
	pod := objects["Deployment"].Spec.Template.Spec
	c := pod.Containers[0]
	_, flag := deployedServe(t, c.Args)
	checkGrace(t, "the pod", time.Duration(pod.Grace)*time.Second, flag)
	ports := map[string]string{}
	for _, port := range c.Ports {
		ports[port.Name] = fmt.Sprintf("0.0.0.0:%d", port.ContainerPort)
	}
	if ports["http"] != flag("listen") || ports["admin"] != flag("admin") || ports["grpc"] != flag("grpc") {
		t.Errorf("the ports are %v", ports)
	}
	if c.LivenessProbe.HTTPGet != (struct{ Path, Port string }{"/healthz", "admin"}) ||
		c.ReadinessProbe.HTTPGet != (struct{ Path, Port string }{"/readyz", "admin"}) {
		t.Errorf("the probes are %+v and %+v", c.LivenessProbe, c.ReadinessProbe)
	}
	// Whoever asks sees that the server drains while it still takes connections.
	delay, err := time.ParseDuration(flag("drain-delay"))
	if err != nil || time.Duration(c.ReadinessProbe.PeriodSeconds*c.ReadinessProbe.FailureThreshold)*time.Second >= delay {
		t.Errorf("the delay of %s is over before the probe of %+v sees it", delay, c.ReadinessProbe)
	}
	if mount := c.VolumeMounts[0]; flag("config") != mount.MountPath+"/limitctl.yaml" || mount.Name != pod.Volumes[0].Name ||
		pod.Volumes[0].ConfigMap.Name != objects["ConfigMap"].Metadata.Name {
		t.Errorf("the configuration is %s, and %+v is mounted", flag("config"), mount)
	}
	labels := objects["Deployment"].Spec.Template.Metadata.Labels
	if app := objects["Service"].Spec.Selector["app"]; labels["app"] != app {
		t.Errorf("the service selects %v of %v", app, labels)
	}
	for i, name := range []string{"http", "grpc"} {
		port := objects["Service"].Spec.Ports[i]
		if port.TargetPort != name || ports[name] != fmt.Sprintf("0.0.0.0:%d", port.Port) {
			t.Errorf("the service has %+v of %v", port, ports)
		}
	}
	if !pod.SecurityContext.RunAsNonRoot || !c.SecurityContext.ReadOnlyRoot || c.SecurityContext.Escalation {
		t.Error("the pod may do more than it has to")
	}
}
