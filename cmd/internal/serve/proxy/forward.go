package proxy

import (
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/pkg/limiter/httplimit"
)

// unfit returns why a request is not passed on, whatever its limits are. status is 0 if it is fit.
func unfit(r *http.Request) (status int, why string) {
	switch {
	case r.Method == http.MethodConnect:
		return http.StatusMethodNotAllowed, "CONNECT is not supported."
	case r.URL.Path != "" && r.URL.Path[0] != '/': // such as *, which is only for OPTIONS
		return http.StatusBadRequest, "The path must begin with a slash."
	case hasDotSegment(r.URL.Path):
		return http.StatusBadRequest, `A path may not have "." or ".." between slashes.`
	}
	return 0, ""
}

// hasDotSegment reports whether a decoded path has a segment "." or "..", for an upstream that reads a backslash as
// a slash and ignores what follows a semicolon. Such an upstream would see another path than the one that was
// counted, or one outside its prefix. Clients resolve such segments before they send.
func hasDotSegment(path string) bool {
	for segment := range strings.FieldsFuncSeq(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		segment, _, _ = strings.Cut(segment, ";")
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// endToEnd returns the request without the fields that its Connection field names, so that it is counted by what
// the upstream sees. The fields about the sender stay, among them own: this proxy reads them and writes new ones.
func endToEnd(r *http.Request, own string) *http.Request {
	var header http.Header
	for _, value := range r.Header["Connection"] {
		for token := range strings.SplitSeq(value, ",") {
			name := textproto.CanonicalMIMEHeaderKey(textproto.TrimString(token))
			if _, sent := r.Header[name]; !sent || saysSender(name, own) || name == "Connection" || name == "Upgrade" {
				continue
			}
			if header == nil {
				header = r.Header.Clone()
			}
			delete(header, name)
		}
	}
	if header == nil {
		return r
	}
	r = r.WithContext(r.Context()) // a shallow copy
	r.Header = header
	return r
}

// saysSender reports whether a field describes the sender of a request to an upstream. own is the field that the
// configuration names. An upstream behind CGI or WSGI reads _ as -.
func saysSender(name, own string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "_", "-")
	return name == "forwarded" || name == "x-real-ip" || strings.HasPrefix(name, "x-forwarded-") ||
		own != "" && strings.EqualFold(name, own)
}

// rewrite makes the upstream's request.
func (l *listener) rewrite(p *httputil.ProxyRequest) {
	query := p.In.URL.RawQuery // unchanged: an upstream can have its own way to read it
	p.SetURL(l.Upstream.url)
	p.Out.URL.RawQuery = query
	p.Out.URL.ForceQuery = p.In.URL.ForceQuery
	p.Out.Trailer = p.In.Trailer // its values are known after the body
	p.Out.Host = p.In.Host
	if l.Host != "" {
		p.Out.Host = l.Host
	}
	if p.Out.Body != nil {
		p.Out.Body = &sentBody{ReadCloser: p.Out.Body, closed: make(chan struct{}), ended: p.In.Context().Done()}
	}
	// Only a WebSocket may leave HTTP. Another protocol, such as HTTP/2 without TLS, could carry requests that
	// nobody counts. HTTP/2 has no upgrades.
	if !strings.EqualFold(p.Out.Header.Get("Upgrade"), "websocket") || l.Upstream.h2c {
		p.Out.Header.Del("Upgrade")
		p.Out.Header.Del("Connection")
	}
	l.tellSender(p)
}

// tellSender writes the fields about the sender for the upstream. It passes the peer's fields on only if the peer
// is a trusted proxy, and of the two lists of addresses only the one that the configuration names, since a client
// can have written the other one.
func (l *listener) tellSender(p *httputil.ProxyRequest) {
	clients := l.engine.Settings().HTTP.Clients
	for name := range p.Out.Header {
		if saysSender(name, clients.Header) {
			delete(p.Out.Header, name)
		}
	}
	unread := httplimit.Forwarded
	if strings.EqualFold(clients.Header, httplimit.Forwarded) {
		unread = httplimit.XForwardedFor
	}
	peer, known := httplimit.Peer(p.In)
	if known && clients.Trusts(peer) {
		for name, values := range p.In.Header {
			if saysSender(name, clients.Header) && !strings.Contains(name, "_") && name != unread {
				p.Out.Header[name] = slices.Clone(values)
			}
		}
		if forwarded := p.Out.Header[httplimit.Forwarded]; len(forwarded) > 0 {
			p.Out.Header.Set(httplimit.Forwarded, strings.Join(forwarded, ", ")+", for="+forwardedNode(peer))
		}
	}
	for name, value := range map[string]string{"X-Forwarded-Host": p.In.Host, "X-Forwarded-Proto": scheme(p.In)} {
		if p.Out.Header.Get(name) == "" && value != "" {
			p.Out.Header.Set(name, value)
		}
	}
	if known {
		p.Out.Header.Set(httplimit.XForwardedFor, strings.Join(append(p.Out.Header[httplimit.XForwardedFor], peer.String()), ", "))
	}
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// forwardedNode writes an address in the form of RFC 7239.
func forwardedNode(address netip.Addr) string {
	if address.Is6() {
		return `"[` + address.String() + `]"`
	}
	return address.String()
}
