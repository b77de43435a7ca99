package redistest

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// dial opens a connection that sends PING and reads a line.
func dial(t *testing.T, addr string) (conn net.Conn, ping func() (string, error)) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	reader := bufio.NewReader(conn)
	return conn, func() (string, error) {
		if _, err := conn.Write([]byte("PING\r\n")); err != nil {
			return "", err
		}
		return reader.ReadString('\n')
	}
}

func TestAProxyDoesWhatNetworksDo(t *testing.T) {
	t.Parallel()
	server := Start(t)
	proxy := StartProxy(t, server.Addr)
	check := func(what string, ping func() (string, error), wanted string, fails bool) {
		t.Helper()
		if got, err := ping(); got != wanted || (err != nil) != fails {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	conn, ping := dial(t, proxy.Addr)
	check("in health", ping, "+PONG\r\n", false)
	proxy.Forget()
	before := server.CommandCalls("ping")
	if err := conn.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	check("forgotten", ping, "", true)
	if after := server.CommandCalls("ping"); after != before {
		t.Errorf("%d commands came through a forgotten connection", after-before)
	}
	_, ping = dial(t, proxy.Addr)
	check("a new one", ping, "+PONG\r\n", false)

	proxy.Suffer(Fault{Cut: 3})
	check("cut", ping, "+PO", true)
	proxy.Suffer(Fault{Refuse: true})
	check("ended", ping, "", true)
	_, ping = dial(t, proxy.Addr)
	if _, err := ping(); err == nil {
		t.Error("a new connection was served")
	}
	proxy.Heal()
	_, ping = dial(t, proxy.Addr)
	check("healed", ping, "+PONG\r\n", false)
}
