package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// benchmarkBody sends the same request again and again, for one of many keys.
func benchmarkBody(b *testing.B, verb, format string) {
	listener := memoryListener(b)
	const keys = 1 << 12
	bodies := make([][]byte, keys)
	for i := range bodies {
		bodies[i] = fmt.Appendf(nil, format, i)
	}
	w := &discard{header: http.Header{}}
	r := httptest.NewRequest("POST", "/v1/"+verb, nil)
	var body bytes.Reader
	r.Body = io.NopCloser(&body)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		body.Reset(bodies[i%keys])
		r.ContentLength = body.Size()
		clear(w.header)
		if listener.ServeHTTP(w, r); w.status >= 500 {
			b.Fatal(w.status)
		}
	}
}

// discard is a response writer that drops the body.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

func BenchmarkConsume(b *testing.B) {
	benchmarkBody(b, "consume", `{"key":"user:%d","limits":["1000000/1h"],"cost":1}`)
}

func BenchmarkConsumePolicy(b *testing.B) {
	benchmarkBody(b, "consume", `{"policy":"login","attributes":{"ip":"203.0.113.9","email":"%d@example.com"}}`)
}

func BenchmarkRefusal(b *testing.B) {
	benchmarkBody(b, "consume", `{"key":"user:%d","limit":["1000000/1h"]}`)
}

func BenchmarkAuth(b *testing.B) {
	listener := authListener(b)
	r := authRequest("GET", "/v1/auth/cheap", "127.0.0.1:1", "X-Forwarded-For: 203.0.113.9", "X-Original-URI: /a?b")
	w := &discard{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		listener.ServeHTTP(w, r)
	}
}
