package envoyclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// binary is limitctl, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "limitctl")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "limitctl")
	code := 1
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Dir = filepath.Join("..", "..")
	if output, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, output)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// patience is a bound for what takes no time, however busy the machine is.
const patience = time.Minute

// server is a `limitctl serve --grpc`.
type server struct {
	t         testing.TB
	cmd       *exec.Cmd
	stderr    bytes.Buffer
	ended     chan error
	addresses map[string]string
}

// serve starts limitctl with a configuration, on ports that the system chooses, until the test ends.
func serve(t testing.TB, configuration string, args ...string) *server {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "limitctl.yaml")
	must(t, os.WriteFile(path, []byte(configuration), 0o600))
	s := &server{t: t, ended: make(chan error, 1)}
	s.cmd = exec.Command(binary, append(
		[]string{"serve", "--config", path, "--grpc", "127.0.0.1:0", "--listen", "127.0.0.1:0",
			"--admin", "127.0.0.1:0", "-o", "jsonl"}, args...)...)
	s.cmd.Env = []string{"HOME=" + dir}
	s.cmd.Stderr = &s.stderr
	stdout, err := s.cmd.StdoutPipe()
	must(t, err)
	must(t, s.cmd.Start())
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		lines <- line
		s.ended <- s.cmd.Wait()
	}()
	t.Cleanup(func() {
		s.cmd.Process.Kill()
		<-s.ended
	})
	var answer struct {
		Addresses map[string]string `json:"addresses"`
	}
	select {
	case line := <-lines:
		if err := json.Unmarshal([]byte(line), &answer); err != nil {
			s.cmd.Process.Kill()
			s.ended <- <-s.ended
			t.Fatalf("limitctl says %q, and on stderr:\n%s", line, &s.stderr)
		}
	case <-time.After(patience):
		t.Fatal("limitctl does not listen")
	}
	s.addresses = answer.Addresses
	return s
}

// connect returns a connection to the server's rate limit service.
func (s *server) connect(options ...grpc.DialOption) *grpc.ClientConn {
	s.t.Helper()
	options = append([]grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}, options...)
	conn, err := grpc.NewClient("passthrough:///"+s.addresses["grpc"], options...)
	must(s.t, err)
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

// ask calls ShouldRateLimit.
func ask(conn *grpc.ClientConn, request *rlsv3.RateLimitRequest) (*rlsv3.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return rlsv3.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, request)
}

// must ends the test on an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
