package cmd

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/tier"
)

func TestMain(m *testing.M) {
	testscript.Main(unhurried{m}, map[string]func(){
		"limitctl": func() {
			for _, name := range []string{"LIMITCTL_STORE", "LIMITCTL_CONTEXT", "LIMITCTL_CONFIG"} {
				if os.Getenv(name) == unset {
					os.Unsetenv(name)
				}
			}
			env := osEnv("v0.0.0-test")
			if os.Getenv(patientVariable) != "" {
				env = patientEnv()
			}
			os.Exit(mainIn(env))
		},
	})
}

// unset is the value of a variable that a script means to unset, which its commands cannot do.
const unset = "-"

// patientEnv is the environment of a process whose time-outs end only what hangs.
func patientEnv() *cli.Env {
	env := osEnv("v0.0.0-test")
	env.Timeout = patience
	return env
}

// unhurried are the tests, and not the commands that they run. Those that go on side by side
// mostly wait, for servers, clocks and time-outs, so there are more of them at once than processors.
type unhurried struct{ tests *testing.M }

func (u unhurried) Run() (code int) {
	if err := flag.Set("test.parallel", "4"); err != nil { // which the command line can overrule
		panic(err)
	}
	for _, name := range []string{"CI", "GITHUB_ACTIONS"} { // under which commands ask for a store by name
		if err := os.Unsetenv(name); err != nil {
			panic(err)
		}
	}
	// for the processes that tests start
	for name, value := range map[string]string{patientVariable: "1", "LC_ALL": "C.UTF-8"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	return u.tests.Run()
}

// The scripts under testdata use limitctl as a shell does. Besides testscript's
// own commands they have
//
//	exits CODE COMMAND...       run it and want that exit code
//	refuses PATTERN COMMAND...  run it, and want the exit code of a mistake and a message that matches
//	timesout CODE PATTERN COMMAND...
//	                            run it with a --timeout, and want that exit code and an
//	                            output that matches; each try has more time than the last
//	redis start [CONFIG...]     go on with servers of the script's own, empty
//	redis pause|resume|kill [N] all of them, or the one of that number
//	redis do COMMAND...         what redis-cli would print where the key is; without a
//	                            key, the sum of the masters' numbers
//	redis sentinels pause|resume|kill
//	redis sentinels do COMMAND...
//	redis failover              kill the master, and wait until the replica is it
//	serve CONFIG CLIENT=STATUS[,STATUS...]...
//	                            run limitctl serve, want these answers to requests of each client for the policy
//	                            login, and end it
//	replicate ADDRESS           make the server a replica, and wait until it is in step
//
// Each script has an empty store, which $STORE and $LIMITCTL_STORE name: a Redis, or what storesOf says. $STORE is
// $REDIS_SCHEME://$REDIS_ADDR$REDIS_PATH.
//
// $REPORTS is a directory of saved reports, and $EXAMPLES that of docs/examples. limitctl waits
// a minute for an answer, so that a busy machine is in time; what is to time out gives --timeout.
func TestScripts(t *testing.T) {
	reports, err := filepath.Abs("../internal/report/testdata")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs("../docs/examples")
	if err != nil {
		t.Fatal(err)
	}
	t.Parallel()
	for _, topology := range topologies {
		t.Run(topology.name, func(t *testing.T) {
			if topology.several {
				tier.Full(t, "a Cluster or Sentinels")
			}
			t.Parallel()
			pool := &pool{topology: topology}
			t.Cleanup(pool.close)
			testscript.Run(t, testscript.Params{
				Files: scriptsOn(t, topology.name),
				Setup: func(env *testscript.Env) error {
					env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state")
					env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/config")
					env.Setenv("HOME", env.WorkDir)
					env.Setenv("REPORTS", reports)
					env.Setenv("EXAMPLES", examples)
					env.Setenv(patientVariable, "1")
					return pool.setUp(env)
				},
				Condition: func(name string) (bool, error) { return name == topology.name, nil },
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits":     exits,
					"refuses":   refuses,
					"timesout":  timesOut,
					"redis":     redisCommand,
					"replicate": replicate,
					"serve":     serveClients,
				},
			})
		})
	}
}

// storesOf has the scripts that run on other stores than one Redis, and why. The first store is that of the quick tier.
var storesOf = []struct{ script, stores, why string }{
	{"audit-store", "single file", "the file keeps the audit log in a table"},
	{"calendar", "single file", "windows of a calendar are reckoned in Go and in Lua"},
	{"classes", "single file", "what is left to others is reckoned in Go and in Lua"},
	{"denials", "single file", "the file keeps denials in a table"},
	{"handover", "file single", "it reads all that is beside the limits"},
	{"in-force", "single file", "the file keeps configurations in a table"},
	{"inspect", "single file", "the file has scans and sums of its own"},
	{"override", "single file", "the file keeps overrides in a table"},
	{"publish", "single file", "the file keeps configurations in a table"},
	{"refund", "file single", "what is given back is reckoned in Go and in Lua"},
	{"tokens", "single file cluster",
		"the file keeps tokens in a table; in a Cluster they share a slot with their key"},
	{"undo", "single file", "the id of a store is one of a server or of a file"},
	{"file", "default", "about the file that is the store if none is named"},

	{"cluster", "cluster", "about keys of many slots"},
	{"blame", "cluster", "about a master that hangs"},
	{"lost-master", "cluster", "about a master that is away"},
	{"policy", "single cluster", "its limits are at several masters"},
	{"layout-reset", "single cluster", "keys of other limiters are at several masters"},
	{"sentinel", "sentinel", "about Sentinels and a failover"},
	{"protect", "single cluster sentinel", "servers are known by more than one URL"},

	{"config", "default", "about where a setting is from"},
	{"context", "default", "about which store is used"},
	{"files-modes", "default", "about the files of the machine"},
	{"variables", "default", "about which store is used"},
}

// quickScripts are those of the quick tier. Each starts some dozens of processes, which is most of the time of the
// tests of commands.
var quickScripts = strings.Fields(`
	audit dashboard file handover help inspect output policy protect refund reset undo
	variables`)

// scriptsOn returns the scripts that run on a topology. In the quick tier a script runs on one store.
func scriptsOn(t *testing.T, topology string) (files []string) {
	t.Helper()
	all, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	known := 0
	for _, file := range all {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		stores := []string{"single"}
		for _, s := range storesOf {
			if s.script == name {
				stores = strings.Fields(s.stores)
				known++
			}
		}
		quick := slices.Contains(quickScripts, name)
		if quick {
			known++
		}
		if slices.Contains(stores, topology) && (!testing.Short() || quick && topology == stores[0]) {
			files = append(files, file)
		}
	}
	if known != len(storesOf)+len(quickScripts) {
		t.Fatal("storesOf or quickScripts names a script that is not there")
	}
	return files
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := codeOf(ts, args[1:]); got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// codeOf runs a command and returns its exit code.
func codeOf(ts *testscript.TestScript, args []string) int {
	err := ts.Exec(args[0], args[1:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	ts.Check(err)
	return 0
}

func refuses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: refuses PATTERN COMMAND...")
	}
	exits(ts, false, append([]string{strconv.Itoa(exitUsage)}, args[1:]...))
	if !regexp.MustCompile("(?m)" + args[0]).MatchString(ts.ReadFile("stderr")) {
		ts.Fatalf("the message does not match `%s`", args[0])
	}
}

// timesOut is for a store of which a part does not answer: where a machine is busy, an answer of
// the other part can be too late as well.
func timesOut(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: timesout CODE PATTERN COMMAND...")
	}
	pattern := regexp.MustCompile("(?m)" + args[1])
	for timeout := 300 * time.Millisecond; ; timeout *= 4 {
		code := codeOf(ts, append(slices.Clone(args[2:]), "--timeout", timeout.String()))
		switch met := pattern.MatchString(ts.ReadFile("stdout") + ts.ReadFile("stderr")); {
		case met && strconv.Itoa(code) == args[0]:
			return
		case timeout > patience:
			ts.Fatalf("exit code %d, want %s and an output that matches `%s`", code, args[0], args[1])
		}
	}
}

// childPatience is far longer than anything takes that ends at once.
const childPatience = 2 * time.Minute

func serveClients(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: serve CONFIG CLIENT=STATUS[,STATUS...]...")
	}
	var problems bytes.Buffer
	said, out := io.Pipe()
	env := patientEnv()
	env.Getenv, env.Out, env.Err, env.Hold = ts.Getenv, out, &problems, func() {}
	ctx, cancel := context.WithTimeout(context.Background(), childPatience)
	ended := make(chan int, 1)
	go func() {
		defer out.Close()
		ended <- Run(ctx, []string{"serve", "--listen", "127.0.0.1:0", "--admin", "off", "-o", "jsonl", "--config",
			ts.MkAbs(args[0])}, env)
	}()
	var answer struct{ Addresses map[string]string }
	line, _ := bufio.NewReader(said).ReadString('\n')
	err := json.Unmarshal([]byte(line), &answer)
	for _, arg := range args[1:] {
		client, statuses, _ := strings.Cut(arg, "=")
		for _, want := range strings.Split(statuses, ",") {
			if err != nil {
				break
			}
			var got string
			if got, err = statusFor(ctx, "http://"+answer.Addresses["http"]+"/v1/auth/login", client); err == nil &&
				got != want {
				err = fmt.Errorf("the server answers %s to %s, want %s", got, client, want)
			}
		}
	}
	cancel()
	if code := <-ended; err != nil || code != exitYes {
		ts.Fatalf("%v; exit code %d: %s", err, code, &problems)
	}
}

// statusFor asks a server for a client, as a proxy does.
func statusFor(ctx context.Context, url, client string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	request.Close = true
	request.Header.Set("X-Forwarded-For", client)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	return strconv.Itoa(response.StatusCode), response.Body.Close()
}

func replicate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: replicate ADDRESS")
	}
	host, port, _ := strings.Cut(args[0], ":")
	replica := redis.NewClient(&redis.Options{Addr: ts.Getenv("REDIS_ADDR"), DisableIdentity: true})
	defer replica.Close()
	master := redis.NewClient(&redis.Options{Addr: args[0], DisableIdentity: true})
	defer master.Close()
	ctx := context.Background()
	ts.Check(replica.ReplicaOf(ctx, host, port).Err())
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		text, err := master.Info(ctx, "replication").Result()
		ts.Check(err)
		if strings.Contains(text, "state=online") {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("it is not in step with %s:\n%s", args[0], text)
		}
	}
}
