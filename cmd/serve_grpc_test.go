//go:build unix

package cmd

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/limitctl/limitctl/internal/rls"
	"golang.org/x/net/http2"
)

// callGRPC asks for a descriptor of the domain edge, and returns the status of gRPC.
func callGRPC(t *testing.T, address, authorization, key, value string) string {
	t.Helper()
	message := rls.AppendRequest(nil, &rls.Request{Domain: "edge",
		Descriptors: []rls.Descriptor{{Entries: []rls.Entry{{Key: key, Value: value}}}}})
	body := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+address+"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
		bytes.NewReader(append(body, message...)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Authorization": {
		authorization}}
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response.Header.Get("Grpc-Status") + response.Trailer.Get("Grpc-Status")
}

// With --log-requests each call of gRPC has a line with the name of its access token, also one that is refused, and
// never the token.
func TestCallsOfGRPCAreLogged(t *testing.T) {
	dir := t.TempDir()
	token, config, tokens := strings.Repeat("a", 32), filepath.Join(dir, "limitctl.yaml"), filepath.Join(dir, "tokens")
	for path, text := range map[string]string{tokens: token + " name=gateway\n",
		config: "envoy:\n  edge:\n    - {deny: true, entries: {user: }}\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := startServe(t, "--config", config, "--grpc", "127.0.0.1:0", "--token-file", tokens, "--grpc-tokens",
		"--log-requests")
	for authorization, status := range map[string]string{"Bearer " + token: "0", "Bearer " + token[1:] + "b": "16"} {
		if got := callGRPC(t, s.addresses["grpc"], authorization, "user", "eve"); got != status {
			t.Errorf("the status is %s, want %s", got, status)
		}
	}
	log := s.end()
	const line = `msg=request door=grpc method=POST ` +
		`path=/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit status=`
	for _, want := range []string{
		`OK took=\S+ from=127\.0\.0\.1:\d+ token=gateway\n`, `UNAUTHENTICATED took=\S+ from=127\.0\.0\.1:\d+\n`,
	} {
		if !regexp.MustCompile(line + want).MatchString(log) {
			t.Errorf("no line is %s", want)
		}
	}
	if strings.Count(log, "msg=request") != 2 || strings.Contains(log, token[1:]) {
		t.Errorf("the log is\n%s", log)
	}
}

// One connection has a quarter of the requests that may be in flight, so that four have to conspire to take all.
func TestAConnectionOfGRPCHasAQuarterOfTheRequests(t *testing.T) {
	s := startServe(t, "--grpc", "127.0.0.1:0", "--max-in-flight", "8")
	conn, err := net.Dial("tcp", s.addresses["grpc"])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	framer := http2.NewFramer(conn, conn)
	io.WriteString(conn, http2.ClientPreface)
	framer.WriteSettings()
	frame, err := framer.ReadFrame()
	if err != nil {
		t.Fatal(err)
	}
	if most, has := frame.(*http2.SettingsFrame).Value(http2.SettingMaxConcurrentStreams); !has || most != 2 {
		t.Errorf("a connection may have %d calls", most)
	}
}
