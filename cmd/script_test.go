package cmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
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

	"github.com/limitctl/limitctl/cmd/internal/cli"
	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/internal/tier"
)

func TestMain(m *testing.M) {
	testscript.Main(unhurried{m}, map[string]func(){
		"limitctl": func() {
			env := osEnv("v0.0.0-test")
			if os.Getenv(patientVariable) != "" {
				env = patientEnv()
			}
			os.Exit(mainIn(env))
		},
		"measured": measured,
	})
}

// patientEnv is the environment of a process whose time-outs end only what hangs.
func patientEnv() *cli.Env {
	env := osEnv("v0.0.0-test")
	env.Timeout, env.TabTime = patience, patience
	return env
}

// unhurried are the tests, and not the commands that they run. Those that go on side by side
// mostly wait, for servers, clocks and time-outs, so there are more of them at once than processors.
type unhurried struct{ tests *testing.M }

func (u unhurried) Run() (code int) {
	if err := flag.Set("test.parallel", "4"); err != nil { // which the command line can overrule
		panic(err)
	}
	for name, value := range map[string]string{patientVariable: "1", "LC_ALL": "C.UTF-8"} { // for the processes that tests start
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
//	timesout CODE PATTERN COMMAND...
//	                            run it with a --timeout, and want that exit code and an
//	                            output that matches; each try has more time than the last
//	redis start [CONFIG...]     have servers of the topology to oneself, empty; $REDIS is
//	                            their URL, and $REDIS_SCHEME://$REDIS_ADDR$REDIS_PATH
//	redis pause|resume|kill     all of them
//	redis do COMMAND...         what redis-cli would print where the key is; without a
//	                            key, the sum of the masters' numbers
//	cluster start [CONFIG...]   start a Cluster of three masters; $STORE is its URL,
//	                            and $NODES the part of it that names the nodes
//	cluster do COMMAND...       on every master
//	cluster pause|resume|kill   all of it, or the master whose number follows
//	sentinel start [CONFIG...]  start a master, a replica and three Sentinels; $STORE
//	                            and $NODES as above
//	sentinel do COMMAND...      on master and replica
//	sentinel ask COMMAND...     on every Sentinel
//	sentinel failover           kill the master, and wait until the replica is it
//	sentinel pause|resume|kill  the Sentinels
//	replicate ADDRESS           make the server a replica, and wait until it is in step
//
// Each script runs once on each topology (see topology_test.go and scriptsOn), where $STORE is
// an empty store of that kind and `redis` works on its servers. One that is about
// something else says so at its head, such as `[!file] stop`.
//
// $REPORTS is a directory of saved reports, and $EXAMPLES that of docs/examples. limitctl waits
// a minute for an answer, so that a busy machine is in time; what is to time out gives --timeout.
func TestScripts(t *testing.T) {
	reports, err := filepath.Abs("internal/report/testdata")
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
				Files: scriptsOn(t, topology),
				Setup: func(env *testscript.Env) error {
					env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state")
					env.Setenv("XDG_CONFIG_HOME", env.WorkDir+"/config")
					env.Setenv("HOME", env.WorkDir)
					env.Setenv("REPORTS", reports)
					env.Setenv("EXAMPLES", examples)
					env.Setenv(patientVariable, "1")
					env.Values[clusterKey{}] = new(clusterOf)
					env.Values[sentinelKey{}] = new(sentinelOf)
					return pool.setUp(env)
				},
				Condition: func(name string) (bool, error) {
					if _, known := topologyNamed(name); !known {
						return false, fmt.Errorf("unknown condition %q", name)
					}
					return name == topology.name, nil
				},
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"exits":     exits,
					"timesout":  timesOut,
					"redis":     redisCommand,
					"cluster":   clusterCommand,
					"sentinel":  sentinelCommand,
					"replicate": replicate,
				},
			})
		})
	}
}

// quickScripts are those of the quick tier. Each starts some dozens of processes, which is most of the time of the
// tests of commands.
var quickScripts = strings.Fields(`
	audit config-init dashboard file handover help inspect keys-read output policy protect refund reset undo
	variables wait`)

// scriptsOn returns the scripts that run on a topology. A server that Sentinels name answers as a single one does, so
// there only the quick scripts run, and those about Sentinels. In the quick tier a script that runs on a server does
// not run on the file, too.
func scriptsOn(t *testing.T, topology topology) (files []string) {
	t.Helper()
	all, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	quick := 0
	for _, file := range all {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		says := func(condition string) bool { return strings.Contains(string(content), condition) }
		isQuick := slices.Contains(quickScripts, strings.TrimSuffix(filepath.Base(file), ".txtar"))
		if isQuick {
			quick++
		}
		switch {
		case testing.Short() && (!isQuick || topology.name == "file" && !says("[!file] stop")):
		case topology.name == "sentinel" && !isQuick && !says("sentinel]"):
		default:
			files = append(files, file)
		}
	}
	if quick != len(quickScripts) {
		t.Fatalf("%d of the quick scripts exist, of %d", quick, len(quickScripts))
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

// clusterOf and sentinelOf are where a script's servers are kept.
type (
	clusterOf  struct{ *redistest.Cluster }
	sentinelOf struct{ *redistest.Sentinel }

	clusterKey  struct{}
	sentinelKey struct{}
)

func clusterCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: cluster start|do|pause|resume|kill")
	}
	kept := ts.Value(clusterKey{}).(*clusterOf)
	switch args[0] {
	case "start":
		cluster, err := redistest.LaunchCluster(args[1:]...)
		ts.Check(err)
		ts.Defer(cluster.Stop)
		kept.Cluster = cluster
		setStore(ts, "redis+cluster://", cluster.Addrs(), "")
	case "do":
		doAll(ts, kept.Masters, args[1:])
	default:
		masters := kept.Masters
		if len(args) > 1 {
			i, err := strconv.Atoi(args[1])
			ts.Check(err)
			masters = masters[i : i+1]
		}
		all(ts, masters, args[0])
	}
}

func sentinelCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: sentinel start|do|ask|failover|pause|resume|kill")
	}
	kept := ts.Value(sentinelKey{}).(*sentinelOf)
	switch args[0] {
	case "start":
		sentinel, err := redistest.LaunchSentinel(args[1:]...)
		ts.Check(err)
		ts.Defer(sentinel.Stop)
		kept.Sentinel = sentinel
		setStore(ts, "redis+sentinel://", sentinel.Addrs(), "/"+redistest.MasterName)
	case "do":
		doAll(ts, kept.Servers, args[1:])
	case "ask":
		doAll(ts, kept.Sentinels, args[1:])
	case "failover":
		old, err := kept.KillMaster()
		ts.Check(err)
		ts.Check(kept.WaitFailover(old))
	default:
		all(ts, kept.Sentinels, args[0])
	}
}

func setStore(ts *testscript.TestScript, scheme string, addrs []string, path string) {
	nodes := strings.Join(addrs, ",")
	ts.Setenv("NODES", nodes)
	ts.Setenv("STORE", scheme+nodes+path)
}

// all pauses, resumes or kills processes.
func all(ts *testscript.TestScript, processes []*redistest.Process, what string) {
	for _, p := range processes {
		switch what {
		case "pause":
			p.Pause()
		case "resume":
			p.Resume()
		case "kill":
			p.Kill()
		default:
			ts.Fatalf("%s: no such command", what)
		}
	}
}

// doAll runs a command on every process and prints the answers, a line each.
func doAll(ts *testscript.TestScript, processes []*redistest.Process, words []string) {
	command := make([]any, len(words))
	for i, word := range words {
		command[i] = word
	}
	for _, p := range processes {
		client := redis.NewClient(&redis.Options{Network: "unix", Addr: p.Socket, DisableIdentity: true})
		defer client.Close()
		reply, err := client.Do(context.Background(), command...).Result()
		if err != nil && err != redis.Nil {
			ts.Fatalf("%v: %v", words, err)
		}
		fmt.Fprintln(ts.Stdout(), reply)
	}
}
