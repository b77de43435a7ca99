package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Process is a running redis-server, for programs that are no test; a test
// has [Start].
type Process struct {
	Addr   string // host:port
	Socket string // path of its unix socket
	Dir    string // its working directory
	cmd    *exec.Cmd
	exited chan struct{}
}

// startTimeout is generous: machines that run tests are busy.
const startTimeout = 30 * time.Second

// errExited says that a server ended before it answered.
var errExited = errors.New("redis-server ended at once")

// Launch runs a redis-server without persistence until Stop; args are further
// configuration, such as "--maxmemory", "3mb".
func Launch(args ...string) (*Process, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not installed; `make test` installs it")
	}
	// Somebody else can take the port between finding and using it.
	for range 5 {
		p, err := launch(binary, args)
		if !errors.Is(err, errExited) {
			return p, err
		}
	}
	return nil, errors.New("redis-server did not start on any of 5 free ports")
}

func launch(binary string, args []string) (*Process, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	// A socket's path must be short; a test's own directory is often not.
	dir, err := os.MkdirTemp("", "redistest")
	if err != nil {
		return nil, err
	}
	p := &Process{Addr: addr, Socket: filepath.Join(dir, "s"), Dir: dir, exited: make(chan struct{})}
	_, port, _ := net.SplitHostPort(addr)
	p.cmd = exec.Command(binary, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--unixsocket", p.Socket, "--dir", dir,
		"--save", "", "--appendonly", "no", "--logfile", filepath.Join(dir, "log"),
	}, args...)...)
	if err := p.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	go func() { p.cmd.Wait(); close(p.exited) }()
	if err := p.waitUntilUp(); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
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

// Stop ends the process, waits until it is gone and removes its directory.
func (p *Process) Stop() {
	p.Resume()
	p.Kill()
	<-p.exited
	os.RemoveAll(p.Dir)
}

// Pause stops the process without ending it: it accepts connections and answers
// nothing until Resume.
func (p *Process) Pause() { p.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (p *Process) Resume() { p.cmd.Process.Signal(syscall.SIGCONT) }

// Kill ends the process at once, as a crash would.
func (p *Process) Kill() { p.cmd.Process.Kill() }

func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}
