package serve

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestPagesInABrowserAreRefused(t *testing.T) {
	handler := WithoutBrowsers(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "/v1/auth/")
	for _, test := range []struct {
		path, field, value string
		want               int
	}{
		{"/v1/consume", "Accept", "*/*", 200},
		{"/v1/consume", "Origin", "https://evil.example", 403},
		{"/v1/consume", "Origin", "null", 403},
		{"/v1/consume", "Origin", "", 403},
		{"/v1/consume", "Sec-Fetch-Site", "cross-site", 403},
		{"/v1/consume", "Sec-Fetch-Site", "same-origin", 403}, // a host name that resolves to this machine
		{"/v1/subject", "Sec-Fetch-Site", "none", 200},        // a person opens it
		{"/v1/auth/site", "Origin", "https://site.example", 200},
		{"/v1/auth", "Origin", "https://site.example", 403},
	} {
		r := httptest.NewRequest("POST", test.path, nil)
		r.Header[test.field] = []string{test.value}
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, r); w.Code != test.want {
			t.Errorf("%s with %s: %q is answered with %d, not %d", test.path, test.field, test.value, w.Code, test.want)
		}
	}
}
