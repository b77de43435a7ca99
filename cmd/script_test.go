package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/limitctl/limitctl/internal/redistest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"limitctl": func() { os.Exit(Main("v0.0.0-test")) },
	})
}

// The scripts under testdata use limitctl as a shell does. Besides testscript's
// own commands they have
//
//	exits CODE COMMAND...       run it and want that exit code
//	redis start [CONFIG...]     start a private server; $REDIS is its URL
//	redis pause|resume|kill
//	redis do COMMAND...         what redis-cli would print
//	replicate ADDRESS           make the server a replica, and wait until it is in step
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_STATE_HOME", env.WorkDir+"/state")
			env.Setenv("HOME", env.WorkDir)
			env.Values[serverKey{}] = new(serverOf)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"redis":     redisCommand,
			"replicate": replicate,
		},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// serverOf is where a script's server is kept between its commands.
type serverOf struct{ *redistest.Process }

type serverKey struct{}

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

func redisCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: redis start|pause|resume|kill|do")
	}
	if args[0] == "start" {
		server, err := redistest.Launch(args[1:]...)
		ts.Check(err)
		ts.Defer(func() { server.Stop() })
		ts.Setenv("REDIS_ADDR", server.Addr)
		ts.Setenv("REDIS_SOCKET", server.Socket)
		ts.Setenv("REDIS", "redis://"+server.Addr)
		ts.Value(serverKey{}).(*serverOf).Process = server
		return
	}
	server := ts.Value(serverKey{}).(*serverOf).Process
	switch args[0] {
	case "pause":
		server.Pause()
	case "resume":
		server.Resume()
	case "kill":
		server.Kill()
	case "do":
		client := redis.NewClient(&redis.Options{Addr: server.Addr, Password: ts.Getenv("REDIS_PASSWORD"), DisableIdentity: true})
		defer client.Close()
		words := make([]any, len(args)-1)
		for i, word := range args[1:] {
			words[i] = word
		}
		reply, err := client.Do(context.Background(), words...).Result()
		if err != nil && err != redis.Nil {
			ts.Fatalf("%v: %v", args[1:], err)
		}
		fmt.Fprintln(ts.Stdout(), strings.Trim(fmt.Sprint(reply), "[]"))
	default:
		ts.Fatalf("redis %s: no such command", args[0])
	}
}
