package serve

import (
	"net/http"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/errorkind"
	"github.com/limitctl/limitctl/cmd/internal/serve/refusal"
)

// WithoutBrowsers refuses requests that a page in a browser sends. Any page can make the browser send a POST to
// this machine without a question, and so use up or give back units of others. Programs send no Origin. A token
// also keeps pages out, since they do not know it.
//
// Requests of proxies at the paths that begin with except have the fields of their clients, and so pass.
func WithoutBrowsers(next http.Handler, except string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fromPage(r.Header) && !strings.HasPrefix(r.URL.Path, except) {
			refusal.Write(w, http.StatusForbidden, errorkind.Unauthorized.Word,
				"a page in a browser may not ask this server, as it has no tokens (--token-file)")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fromPage reports whether a page sent a request, and not a program or a person. Browsers send one of these fields
// with every request that can change something.
func fromPage(header http.Header) bool {
	if len(header["Origin"]) > 0 {
		return true
	}
	site := header.Get("Sec-Fetch-Site")
	return site != "" && site != "none"
}
