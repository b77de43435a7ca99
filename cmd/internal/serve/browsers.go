package serve

import (
	"net/http"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/errorkind"
	"github.com/limitctl/limitctl/cmd/internal/serve/refusal"
)

// WithoutBrowsers refuses what a page in a browser asks. Every page that somebody opens can make the
// browser send a POST to this machine, without asking anybody, and so use up or give back what
// others are allowed. Programs send no Origin. A token keeps pages out as well: they do not know it.
//
// What proxies ask at the paths that begin with except has the fields of their own clients, and so
// passes.
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

// fromPage reports whether a page sent a request, and not a program or a person. Browsers send
// one of these fields with all that can change something.
func fromPage(header http.Header) bool {
	if len(header["Origin"]) > 0 {
		return true
	}
	site := header.Get("Sec-Fetch-Site")
	return site != "" && site != "none"
}
