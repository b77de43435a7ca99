package envoy

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/limitctl/limitctl/cmd/internal/serve/engine"
	"github.com/limitctl/limitctl/cmd/internal/serve/grpc"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// ask sends a server one message, and returns the answer and its status.
func ask(t *testing.T, address, path string, message []byte) (answer, status string) {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+path, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/grpc")
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), response.Header.Get("Grpc-Status") + response.Trailer.Get("Grpc-Status")
}

// Reflection is answered if it is asked for, without authorization, about all services.
func TestReflection(t *testing.T) {
	services := []string{service, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
		"grpc.reflection.v1alpha.ServerReflection"}
	list := protowire.AppendString(protowire.AppendTag(nil, 7, protowire.BytesType), "")
	for _, on := range []bool{true, false} {
		backend := memorystore.New()
		defer backend.Close()
		e := engine.New(backend, llmSettings(), engine.Options{})
		defer e.Close()
		server := New(e, Options{Reflection: on, Admits: func([]string) (string, bool) { return "no", false }})
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- server.Serve(listener) }()
		for _, path := range []string{grpc.ReflectionV1, grpc.ReflectionV1Alpha} {
			answer, status := ask(t, listener.Addr().String(), path, list)
			if !on {
				if status != "16" {
					t.Errorf("without it, %s is answered %q, %s", path, answer, status)
				}
				continue
			}
			for _, name := range services {
				if !strings.Contains(answer, name) || status != "0" {
					t.Errorf("%s is answered %q, %s", path, answer, status)
				}
			}
		}
		if _, status := ask(t, listener.Addr().String(), shouldRateLimit, nil); status != "16" {
			t.Errorf("a call without authorization is answered %s", status)
		}
		server.Close()
		<-served
	}
}
