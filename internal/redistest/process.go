package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Process is a running redis-server, for programs that are not tests; for tests see [Start].
type Process struct {
	Addr   string // host:port
	Socket string // path of its unix socket
	Dir    string // its working directory
	cmd    *exec.Cmd
	exited chan struct{}
}

// The ports of servers. A node of a Cluster also listens at [busOffset] above its port, which is still below the
// ephemeral ports.
const (
	firstPort = 12_000
	portCount = 10_000
)

// startTimeout is generous: machines that run tests are busy.
const startTimeout = 30 * time.Second

// errExited: a server ended before it answered.
var errExited = errors.New("redis-server ended at once")

// Launch runs a redis-server without persistence until Stop; args are additional configuration, such as
// "--maxmemory", "3mb". With "--tls-cert-file" its port speaks TLS; the unix socket never does.
func Launch(args ...string) (*Process, error) { return launchOn(FreeAddr, args) }

// launchOn is Launch on an address that free finds.
func launchOn(free func() (string, error), args []string) (*Process, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not installed; `make setup` installs it")
	}
	// Another process can take the port before it is used.
	for range 5 {
		addr, err := free()
		if err != nil {
			return nil, err
		}
		p, err := launch(binary, addr, args)
		if !errors.Is(err, errExited) {
			return p, err
		}
	}
	return nil, errors.New("redis-server did not start on any of 5 free ports")
}

func launch(binary, addr string, args []string) (*Process, error) {
	// The path of a socket must be short; a test's own directory is often too long.
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, err
	}
	p := &Process{Addr: addr, Socket: filepath.Join(dir, "s"), Dir: dir}
	config := filepath.Join(dir, "conf") // a Sentinel keeps its state there
	if err := os.WriteFile(config, nil, 0o600); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	ports := []string{"--port", port}
	if slices.Contains(args, "--tls-cert-file") {
		ports = []string{"--port", "0", "--tls-port", port}
	}
	p.cmd = exec.Command(binary, slices.Concat([]string{config}, ports, []string{
		"--bind", "127.0.0.1", "--unixsocket", p.Socket, "--dir", dir,
		"--save", "", "--appendonly", "no", "--logfile", filepath.Join(dir, "log"),
	}, args)...)
	if err := p.start(); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// start runs the command and waits until the server answers.
func (p *Process) start() error {
	cmd, exited := p.cmd, make(chan struct{})
	p.exited = exited
	if err := cmd.Start(); err != nil {
		close(exited)
		return err
	}
	go func() { cmd.Wait(); close(exited) }()
	return p.waitUntilUp()
}

// Restart runs a killed server again: on the same address, with an empty memory.
func (p *Process) Restart() error {
	again := exec.Command(p.cmd.Path, p.cmd.Args[1:]...)
	p.cmd = again
	return p.start()
}

func (p *Process) waitUntilUp() error {
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if conn, err := net.Dial("unix", p.Socket); err == nil {
			conn.Close()
			return nil
		}
		select {
		case <-p.exited:
			return errExited
		case <-time.After(5 * time.Millisecond):
		}
	}
	log, _ := os.ReadFile(filepath.Join(p.Dir, "log"))
	return fmt.Errorf("redis-server did not answer within %s; its log:\n%s", startTimeout, log)
}

// Stop ends the process, waits for it and removes its directory.
func (p *Process) Stop() {
	p.Kill()
	os.RemoveAll(p.Dir)
}

// Pause stops the process without ending it: it accepts connections and answers nothing until Resume.
func (p *Process) Pause() { p.signal(stopSignal) }

// Resume ends a Pause.
func (p *Process) Resume() { p.signal(resumeSignal) }

func (p *Process) signal(signal os.Signal) {
	if err := p.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		panic(err) // otherwise a test of a hanging server would use one that answers
	}
}

// Kill ends the process at once, like a crash, even if it is paused.
func (p *Process) Kill() {
	if p.cmd.Process != nil {
		p.cmd.Process.Kill()
	}
	<-p.exited
}

// running reports whether the process has not ended; a paused one has not.
func (p *Process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// admin returns a client on the unix socket, which needs neither TLS nor the port.
func (p *Process) admin() *redis.Client {
	return redis.NewClient(&redis.Options{Network: "unix", Addr: p.Socket, ReadTimeout: Patience,
		ContextTimeoutEnabled: true,
		DisableIdentity:       true})
}

// do runs one command.
func (p *Process) do(ctx context.Context, args ...any) *redis.Cmd {
	client := p.admin()
	defer client.Close()
	return client.Do(ctx, args...)
}

// until calls ready again and again until it returns nil, and returns its last error after startTimeout.
func until(what string, ready func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %s: %w", what, startTimeout, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// given are the addresses that FreeAddr has returned.
var given sync.Map

// FreeAddr returns an address of the loopback on which nobody listens. Its port is below the ephemeral ports: one
// of those could become the local end of a connection before the server uses it, or while a killed server is down,
// and a client could even connect to itself. It returns no address twice in a process, since the first caller may
// not listen yet.
func FreeAddr() (string, error) {
	for range 1000 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+rand.IntN(portCount)))
		if _, was := given.LoadOrStore(addr, true); was {
			continue
		}
		if listener, err := net.Listen("tcp", addr); err == nil {
			listener.Close()
			return addr, nil
		}
	}
	return "", errors.New("of 1000 ports none is free")
}
