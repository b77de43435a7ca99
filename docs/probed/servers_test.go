// Package probed tests limitctl probe on limiters of others.
package probed

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// limitctl is the path of the command, built once for all tests.
var limitctl string

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Set("test.parallel", "16") // probes mostly wait
	dir, err := os.MkdirTemp("", "limitctl")
	if err != nil {
		panic(err)
	}
	limitctl = filepath.Join(dir, "limitctl")
	code := 1
	build := exec.Command("go", "build", "-o", limitctl, ".")
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

// listen opens a port for a server, which inherits it as file descriptor 3, so that nobody else can take the port
// before.
func listen(t *testing.T) (address string, socket *os.File) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if socket, err = listener.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return listener.Addr().String(), socket
}

// configure writes a file of this directory into dir, with the server's address.
func configure(t *testing.T, dir, name, old, address string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), old, address, 1)
	if changed == string(text) {
		t.Fatalf("%s has no %q", name, old)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
}

// start starts a server, which ends with the test.
func start(t *testing.T, dir string, socket *os.File, program string, args ...string) (stdout *bufio.Reader) {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil { // Debian's servers are not in every user's PATH
		path = filepath.Join("/usr/sbin", program)
	}
	var said bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Stderr = dir, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if socket != nil {
		cmd.ExtraFiles, cmd.Env = []*os.File{socket}, append(os.Environ(), "NGINX=3;")
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("%v; make setup installs it", err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		if t.Failed() {
			t.Logf("%s said:\n%s", program, &said)
		}
	})
	return bufio.NewReader(pipe)
}

// startNginx, startHAProxy and startNode start a server and return its address. The port is already open,
// so a connection waits until the server is ready.
func startNginx(t *testing.T) (address string) {
	dir := t.TempDir()
	address, socket := listen(t)
	configure(t, dir, "nginx.conf", "127.0.0.1:8000", address)
	orders := "daemon off;"
	if group, err := user.LookupGroupId("0"); os.Geteuid() == 0 && err == nil {
		orders += " user root " + group.Name + ";" // another user cannot read this directory
	}
	start(t, dir, socket, "nginx", "-e", "nginx.log", "-p", ".", "-c", "nginx.conf", "-g", orders)
	return address
}

func startHAProxy(t *testing.T) (address string) {
	dir := t.TempDir()
	address, socket := listen(t)
	configure(t, dir, "haproxy.cfg", "127.0.0.1:8002", "fd@3")
	start(t, dir, socket, "haproxy", "-db", "-f", "haproxy.cfg")
	return address
}

func startNode(t *testing.T) (address string) {
	lines := make(chan string, 1)
	out := start(t, "node", nil, "node", "server.js")
	go func() {
		line, _ := out.ReadString('\n')
		lines <- strings.TrimSpace(line)
	}()
	select {
	case address = <-lines:
	case <-time.After(patience):
	}
	if address == "" {
		t.Fatal("node does not listen; make setup installs its packages")
	}
	return address
}
