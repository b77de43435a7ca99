package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/limitctl/limitctl/internal/serve"
	"github.com/limitctl/limitctl/internal/serve/engine"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

func TestBodiesThatAreRefused(t *testing.T) {
	many := strings.Repeat(`"10/1m",`, 64) + `"10/1m"`
	for _, test := range []struct{ verb, body, says string }{
		{"consume", "", "the body ends too early"},
		{"consume", "\ufeff{}", "not valid JSON at byte 1: invalid character '\\ufeff' at start of value"},
		{"consume", "[]", `the body is no object; send one, such as {"key":"user:42","limits":["10/1m"]}`},
		{"consume", `{"key":`, "the body ends too early"},
		{"consume", `{"key":"a","limits":["1/1m"]} {}`, "at byte 31: invalid character '{' after top-level value"},
		{"consume", "{\"key\":\"\xff\"}", "at byte 9: invalid UTF-8"},
		{"consume", `{"limt":["1/1m"]}`, `unknown field "limt"; did you mean "limits"?`},
		{"consume", `{"Key":"a","limits":["1/1m"]}`, `unknown field "Key"; did you mean "key"?`},
		{"consume", `{"subject":"a"}`,
			`unknown field "subject"; the fields of consume are ` +
				`key, limits, policy, attributes, cost, costs, token, token_ttl, up_to, force`},
		{"check", `{"up_to":1}`, `unknown field "up_to"; the fields of check are ` +
			`key, limits, policy, attributes, cost, costs, token, token_ttl`},
		{"consume", `{"key":"a","k\u0065y":"a"}`, `"key" is given twice; keep one`},
		{"consume", `{"key":1}`, "key must be a text"},
		{"consume", `{"key":"a","limits":["10/1m"],"token":null}`, "null is no value"},
		{"consume", `{"limits":["10/1m",1]}`, "limits must be a list of texts"},
		{"consume", `{"limits":` + strings.Repeat("[", 30_000), "exceeded max depth"},
		{"consume", `{"attributes":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5001),
			`attributes must be an object of texts, such as {"ip":"203.0.113.9"}`},
		{"consume", `{"key":"a","limits":[` + many + `]}`, "there are more than 64 limits; decide fewer together"},
		{"consume", `{"costs":{"tokens":1,"tokens":1}}`, `"tokens" is given twice; keep one`},
		{"consume", `{"costs":[1]}`, `costs must be an object of whole numbers, such as {"tokens":3000}`},
		{"consume", `{"cost":"1"}`, "cost must be a whole number without quotes, such as 1"},
		{"consume", `{"cost":1e3}`, "cost must be"},
		{"consume", `{"cost":` + strings.Repeat("9", 5000) + `}`, "cost must be"},
		{"consume", `{"force":"true"}`, `force must be true or false`},
		{"consume", `{}`, `key is missing; it says who is limited, such as "user:42"; or send policy and attributes`},
		{"consume", `{"key":"a"}`, `limits are missing; they say what is allowed, such as ["10/1m"]`},
		{"consume", `{"key":"a","policy":"login"}`, "policy is for attributes, without key and limits"},
		{"consume", `{"policy":""}`, "policy is empty"},
		{"consume", `{"key":"a","limits":["1/1m"],"attributes":{"ip":"x"}}`, "attributes and costs are for a policy"},
		{"consume", `{"policy":"logn"}`,
			`policy "logn" is unknown; did you mean login?; the server's configuration has login`},
		{"consume", `{"policy":"login"}`, `policy "login" needs the attributes email and ip`},
		{"consume", `{"key":"a","limits":["10/1m","10/1m"]}`, `share the name "token-bucket/1m"`},
		{"consume", `{"key":"","limits":["10/1m"]}`, "subject is empty"},
		{"consume", `{"key":"a","limits":["10/1m"],"token_ttl":"1m"}`,
			"token_ttl says how long to remember a token; add token"},
		{"consume", `{"key":"a","limits":["10/1m"],"token":"t","token_ttl":"1x"}`, "token_ttl: "},
		{"consume", `{"key":"a","limits":["10/1m"],"force":true,"up_to":1}`, "up_to is for itself"},
		{"settle", `{"key":"a","limits":["10/1m"],"cost":1}`, "a settlement needs the token"},
		{"settle", `{"key":"a","limits":["10/1m"],"token":"t"}`, "settle needs the real cost"},
		{"settle", `{"key":"a","limits":["10/1m"],"token":"t","cost":-1}`, "cost -1 is negative"},
	} {
		w, document := ask(t, memoryListener(t), "POST", "/v1/"+test.verb, test.body)
		kind, message := errorOf(document)
		oneLine := !strings.ContainsAny(message, "\n\r") && len(message) < 2100
		if w.Code != 400 || kind != "usage" || !strings.Contains(message, test.says) || !oneLine {
			t.Errorf("%s %.80q: %d %s %q, want %q", test.verb, test.body, w.Code, kind, message, test.says)
		}
	}
}

func TestBodiesThatAreAnswered(t *testing.T) {
	listener := memoryListener(t)
	for _, test := range []struct {
		verb, body string
		status     int
		has        string // a field and its value
	}{
		{"check", `{"key":"a","limits":["2/1h"]}`, 200, "remaining 2"},
		{"consume", "\t{ \"limits\" : [ \"2/1h\" ] , \"key\" : \"\\u0061\" }\r\n", 200, "remaining 1"},
		{"consume", `{"key":"a","limits":["2/1h"],"cost":2,"force":false}`, 429, "granted 0"},
		{"consume", `{"key":"a","limits":["2/1h"],"force":true,"cost":3}`, 200, "granted 3"},
		{"refund", `{"key":"a","limits":["2/1h"],"cost":4}`, 200, "refunded 4"},
		{"consume", `{"key":"a","limits":["2/1h"],"up_to":9}`, 200, "granted 2"},
		{"refund", `{"key":"nobody","limits":["2/1h"]}`, 200, "refunded 0"},
		{"consume", `{"key":"b","limits":["10/1h","sliding-log:3/1m"],"cost":2}`, 200, "remaining 1"},
		{"consume", `{"key":"c","limits":["10/1h"],"cost":5,"token":"t1","token_ttl":"1h"}`, 200, "remaining 5"},
		{"consume", `{"key":"c","limits":["10/1h"],"cost":5,"token":"t1"}`, 200, "repeated true"},
		{"consume", `{"key":"c","limits":["10/1h"],"cost":4,"token":"t1"}`, 400, ""},
		{"settle", `{"key":"c","limits":["10/1h"],"cost":7,"token":"t1"}`, 200, "remaining 3"},
		{"settle", `{"key":"c","limits":["10/1h"],"cost":8,"token":"t1"}`, 400, ""},
		{"settle", `{"key":"c","limits":["10/1h"],"cost":0,"token":"nobody's"}`, 409, ""},
		{"consume", `{"key":"d","limits":["10/1h"],"cost":5,"token":"t2"}`, 200, "remaining 5"},
		{"refund", `{"key":"d","limits":["10/1h"],"cost":5,"token":"t2"}`, 200, "refunded 5"},
		{"consume", `{"policy":"login","attributes":{"ip":"203.0.113.9","email":"é😀"}}`, 200,
			"key email=é😀 ip=203.0.113.9"},
		{"consume", `{"policy":"login","attributes":{"email":"\ud83d\ude00","ip":"203.0.113.9"},"cost":2}`, 200,
			"policy login"},
		{"consume", `{"policy":"login","attributes":{"email":"😀","ip":"203.0.113.9"}}`, 429, "denied_by [email]"},
	} {
		w, document := ask(t, listener, "POST", "/v1/"+test.verb, test.body)
		field, want, _ := strings.Cut(test.has, " ")
		if w.Code != test.status || field != "" && fmt.Sprint(document[field]) != want {
			t.Errorf("%s %s: %d %s, want %d with %s", test.verb, test.body, w.Code, w.Body, test.status, test.has)
		}
		if (test.status == 429) != (w.Header().Get("Retry-After") != "") {
			t.Errorf("%s %s: status %d with Retry-After %q", test.verb, test.body, w.Code,
				w.Header().Get("Retry-After"))
		}
	}
}

func TestOtherPathsAndMethods(t *testing.T) {
	listener := memoryListener(t)
	for _, test := range []struct {
		method, path string
		status       int
		allow, says  string
	}{
		{"GET", "/v1/check", 405, "POST", "method GET is not for /v1/check; send POST with a body such as"},
		{"HEAD", "/v1/consume", 405, "POST", ""},
		{"POST", "/v1/subject", 405, "GET, HEAD", "send GET"},
		{"POST", "/", 404, "",
			"there is nothing at /; there are /v1/check, /v1/consume, /v1/refund, /v1/settle, /v1/reset, /v1/subject " +
				"and " +
				"/v1/auth/POLICY"},
		{"POST", "/v1/consume/", 404, "", "there is nothing at"},
		{"POST", "/v1/" + strings.Repeat("x", 5000), 404, "", "there is nothing at"},
	} {
		w, document := ask(t, listener, test.method, test.path, "{}")
		kind, message := errorOf(document)
		if w.Code != test.status || w.Header().Get("Allow") != test.allow || kind != "usage" ||
			!strings.Contains(message, test.says) {
			t.Errorf("%s %.40s: %d %v %s %s", test.method, test.path, w.Code, w.Header(), kind, message)
		}
	}
}

func TestABodyIsBounded(t *testing.T) {
	listener := memoryListener(t)
	fits := `{"key":"a","limits":["2/1h"]}`
	fits += strings.Repeat(" ", maxBody-len(fits))
	for body, want := range map[string]int{fits: 200, fits + " ": 413} {
		for _, known := range []bool{true, false} {
			w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/check", strings.NewReader(body))
			if !known {
				r.ContentLength = -1 // chunked
			}
			listener.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%d bytes, length known %v: %d %s", len(body), known, w.Code, w.Body)
			}
			if closes := w.Header().Get("Connection") == "close"; closes != (want == 413) {
				t.Errorf("%d bytes, length known %v: the connection is kept: %v", len(body), known, !closes)
			}
		}
	}
}

// A request whose body does not arrive takes no place in the gate.
func TestSlowBodiesTakeNoPlace(t *testing.T) {
	gate := serve.NewGate(1, func() {})
	listener := Handler(engineOn(t, memorystore.New(), &engine.Settings{}, time.Minute), Options{Gate: gate})
	const body = `{"key":"a","limits":["2/1h"]}`
	slow, ends := io.Pipe()
	answered := make(chan int)
	go func() {
		w := httptest.NewRecorder()
		listener.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/consume", slow))
		answered <- w.Code
	}()
	io.WriteString(ends, body[:9])
	if w, _ := ask(t, listener, http.MethodPost, "/v1/consume", body); w.Code != http.StatusOK {
		t.Errorf("beside a slow body: %d %s", w.Code, w.Body)
	}
	gate.Enter()
	if w, _ := ask(t, listener, http.MethodPost, "/v1/consume", body); w.Code != http.StatusServiceUnavailable {
		t.Errorf("a full gate: %d %s", w.Code, w.Body)
	}
	gate.Leave()
	io.WriteString(ends, body[9:])
	ends.Close()
	if status := <-answered; status != http.StatusOK {
		t.Errorf("the slow one: %d", status)
	}
}
