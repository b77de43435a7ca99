package endpoint

import (
	"cmp"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/net/http/httpguts"

	"github.com/limitctl/limitctl/internal/redact"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Options describe the requests to an endpoint.
type Options struct {
	// URL is http:// or https://, and can contain [SubjectPlace] and [CostPlace] in its path and its query. Or it is
	// grpc://HOST:PORT of an Envoy rate limit service, and grpcs://HOST:PORT with TLS.
	URL string
	// Headers have the form "Name: value". A value can contain the places, unless it is for a rate limit service.
	Headers []string
	// UserAgent identifies the program, unless Headers do.
	UserAgent string
	// Permitted are hosts beyond loopback that may be tested.
	Permitted []string
	// Timeout bounds a request whose context has no deadline; 0 means 30 s.
	Timeout time.Duration
	// TLS, for https and grpcs, says whom to trust and who asks; nil means the system's authorities and no certificate.
	TLS *tls.Config

	// Method is the method; empty means GET, or POST with a body.
	Method string
	// Body can contain the places. In JSON a subject is written as the inside of a string.
	Body string
	// DeniedStatuses are the statuses of a denial; the default is 429. DeniedHeader, "Name" or "Name=value", is a
	// field that makes an answer of any status a denial.
	DeniedStatuses []int
	DeniedHeader   string
	// HTTP2 uses HTTP/2: over TLS if the URL is https, and without it otherwise (h2c).
	HTTP2 bool
	// NoKeepAlive opens a new connection for each request.
	NoKeepAlive bool

	// Domain and Descriptors are those of each request to a rate limit service. Both can contain SubjectPlace, and a
	// descriptor has the form of [parseDescriptor].
	Domain      string
	Descriptors []string
}

// httpTarget is the prepared part of an endpoint.
type httpTarget struct {
	Options
	url     *url.URL
	address string // host:port to connect to
	tls     *tls.Config
	dialer  *net.Dialer
	// Of the connections that were opened:
	openMu               sync.Mutex
	connects, handshakes *hdrhistogram.Histogram
	long                 atomic.Int64
	// The request: a target for the request line, headers and a body.
	target  template
	host    string // the header Host
	headers []headerTemplate
	body    template
}

type headerTemplate struct {
	name  string
	value template
}

// New returns the client of an endpoint. A wrong option is a [store.ErrInvalid].
func New(options Options) (Client, error) {
	t := &httpTarget{Options: options, connects: newTimes(), handshakes: newTimes()}
	if IsRLS(options.URL) {
		return newRLS(t)
	}
	var err error
	if t.url, t.target, err = parseTarget(options.URL); err != nil {
		return nil, err
	}
	t.address = t.url.Host
	if t.url.Port() == "" {
		t.address = strings.TrimSuffix(t.address, ":") + map[bool]string{false: ":80", true: ":443"}[t.isTLS()]
	}
	if err := t.checkConnection(); err != nil {
		return nil, err
	}
	if err := t.prepare(); err != nil {
		return nil, err
	}
	if options.HTTP2 {
		return newHTTP2(t), nil
	}
	return newHTTP1(t), nil
}

// checkConnection checks the host, and prepares the handshake if there is TLS.
func (t *httpTarget) checkConnection() error {
	t.dialer = dialer(t.url.Hostname())
	if err := checkHost(t.url, t.Permitted); err != nil || !t.isTLS() {
		if err == nil && t.TLS != nil {
			err = store.Invalidf("certificates are for https and grpcs")
		}
		return err
	}
	if t.tls = t.TLS.Clone(); t.tls == nil {
		t.tls = new(tls.Config)
	}
	t.tls.ServerName, t.tls.NextProtos, t.tls.MinVersion = t.url.Hostname(), []string{"http/1.1"}, tls.VersionTLS12
	t.tls.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	if t.speaksHTTP2() {
		t.tls.NextProtos = []string{"h2"}
	}
	return nil
}

func (t *httpTarget) isTLS() bool { return t.url.Scheme == "https" }

func (t *httpTarget) speaksHTTP2() bool { return t.HTTP2 || IsRLS(t.URL) }

// prepare makes the templates of a request.
func (t *httpTarget) prepare() error {
	t.Method = cmp.Or(t.Method, map[bool]string{false: http.MethodGet, true: http.MethodPost}[t.Body != ""])
	switch {
	case t.HTTP2 && t.NoKeepAlive:
		return store.Invalidf("HTTP/2 sends many requests over one connection; leave out --http2 or --no-keepalive")
	case !httpguts.ValidHeaderFieldName(t.Method):
		return store.Invalidf("the method %q is not one; write a word such as GET or POST", t.Method)
	case t.DeniedHeader != "" && !httpguts.ValidHeaderFieldName(strings.SplitN(t.DeniedHeader, "=", 2)[0]):
		return store.Invalidf("--denied-header %q must be NAME or NAME=VALUE", t.DeniedHeader)
	}
	t.host = t.url.Host
	given := http.Header{}
	for _, text := range t.Headers {
		h, err := parseHeader(text)
		if err != nil {
			return err
		}
		if given.Set(h.name, h.value.text); h.name != "Host" {
			t.headers = append(t.headers, h)
			continue
		}
		if t.host = h.value.text; !h.value.isFixed() {
			return store.Invalidf("--header Host cannot be different for each request; put %s elsewhere", SubjectPlace)
		}
	}
	add := func(name, value string) {
		if _, is := given[name]; !is && value != "" {
			t.headers = append(t.headers, headerTemplate{name, template{value, verbatim}})
			given.Set(name, value)
		}
	}
	if login := t.url.User; login != nil {
		password, _ := login.Password()
		add("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(login.Username()+":"+password)))
	}
	add("User-Agent", t.UserAgent)
	add("Accept", "*/*")
	if t.Body == "" {
		return nil
	}
	t.body = template{t.Body, verbatim}
	if begin := strings.TrimLeft(t.Body, " \t\r\n"); strings.HasPrefix(begin, "{") || strings.HasPrefix(begin, "[") {
		add("Content-Type", "application/json")
	}
	add("Content-Type", "text/plain; charset=utf-8")
	switch media, _, _ := mime.ParseMediaType(given.Get("Content-Type")); {
	case strings.HasSuffix(media, "/json"), strings.HasSuffix(media, "+json"):
		t.body.encode = inJSON
		if !json.Valid([]byte(t.body.expand(`a"\b`, 1))) {
			return store.Invalidf("the --body is not JSON; %s belongs inside of quotes, "+
				"or say what it is with --header 'Content-Type: text/plain'", SubjectPlace)
		}
	case media == "application/x-www-form-urlencoded":
		t.body.encode = inURL
	}
	return nil
}

// ourFields are about how requests are sent.
var ourFields = []string{"Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Proxy-Connection",
	"Upgrade", "Expect", "Trailer", "Te"}

// parseHeader reads "Name: value".
func parseHeader(text string) (headerTemplate, error) {
	name, value, found := strings.Cut(text, ":")
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case !found || !httpguts.ValidHeaderFieldName(name):
		return headerTemplate{}, store.Invalidf("a --header is not 'Name: value'; it can be a secret and is not shown")
	case !httpguts.ValidHeaderFieldValue(value):
		return headerTemplate{}, store.Invalidf(
			"--header %s has a line end or a control character in its value; leave it out", name)
	case slices.Contains(ourFields, canonical):
		return headerTemplate{}, notOurs(canonical)
	}
	return headerTemplate{canonical, template{strings.TrimSpace(value), inHeader}}, nil
}

// notOurs refuses a header that says how requests are sent.
func notOurs(name string) error {
	return store.Invalidf("--header %s is about how requests are sent, which limitctl says itself; leave it out", name)
}

// Places implements [Client].
func (t *httpTarget) Places() (subject, cost bool) {
	all := t.target.text + t.body.text
	for i := range t.headers {
		all += t.headers[i].value.text
	}
	return strings.Contains(all, SubjectPlace), strings.Contains(all, CostPlace)
}

// Describe implements [Client].
func (t *httpTarget) Describe() string { return RedactURL(t.URL) }

// Tell fills in what an answer says.
func (t *Options) Tell(answer *Answer, answered time.Time, status int, header http.Header) {
	*answer = Answer{Sent: answer.Sent, Answered: answered, Status: status, Header: header, Outcome: Allowed}
	name, value, hasValue := strings.Cut(t.DeniedHeader, "=")
	isDenial := func(v string) bool { return !hasValue || strings.EqualFold(v, value) }
	switch {
	case slices.Contains(t.DeniedStatuses, status), status == http.StatusTooManyRequests && len(t.DeniedStatuses) == 0,
		t.DeniedHeader != "" && slices.ContainsFunc(header.Values(name), isDenial):
		answer.Outcome = Denied
	case status >= 500:
		answer.Outcome = Failed
	}
}

// Placeholders in a request for the subject and the cost.
const (
	SubjectPlace = "{subject}"
	CostPlace    = "{cost}"
)

// The places are not valid in a URL, so words replace them while it is read.
const subjectWord, costWord = "limitctl-place-of-subject", "limitctl-place-of-cost"

var (
	toWords  = strings.NewReplacer(SubjectPlace, subjectWord, CostPlace, costWord)
	toPlaces = strings.NewReplacer(subjectWord, SubjectPlace, costWord, CostPlace)
)

// template is a text with places for a subject and a cost.
type template struct {
	text   string
	encode func(subject string) string
}

// append appends the text for a subject and a cost.
func (t *template) append(to []byte, subject string, cost int64) []byte {
	for rest := t.text; ; {
		begin := strings.IndexByte(rest, '{')
		if begin < 0 {
			return append(to, rest...)
		}
		to, rest = append(to, rest[:begin]...), rest[begin:]
		switch {
		case strings.HasPrefix(rest, SubjectPlace):
			to, rest = append(to, t.encode(subject)...), rest[len(SubjectPlace):]
		case strings.HasPrefix(rest, CostPlace):
			to, rest = strconv.AppendInt(to, cost, 10), rest[len(CostPlace):]
		default:
			to, rest = append(to, '{'), rest[1:]
		}
	}
}

// expand returns the text for a subject and a cost.
func (t *template) expand(subject string, cost int64) string {
	return string(t.append(nil, subject, cost))
}

func (t *template) isFixed() bool {
	return !strings.Contains(t.text, SubjectPlace) && !strings.Contains(t.text, CostPlace)
}

func verbatim(subject string) string { return subject }

// inURL encodes a subject so that it means the same in a path and in a query. A part of a path that is "." or ".."
// would mean another path.
func inURL(subject string) string {
	if subject == "." || subject == ".." {
		return strings.ReplaceAll(subject, ".", "%2E")
	}
	return strings.ReplaceAll(url.QueryEscape(subject), "+", "%20")
}

// inHeader encodes a subject that could end the line, or whose spaces a server would drop.
func inHeader(subject string) string {
	isControl := func(r rune) bool { return r < ' ' || r == 0x7f }
	if strings.ContainsFunc(subject, isControl) || strings.Trim(subject, " ") != subject {
		return inURL(subject)
	}
	return subject
}

// inJSON encodes a subject as the inside of a JSON string.
func inJSON(subject string) string {
	quoted, _ := json.Marshal(subject) // cannot fail for a string
	return string(quoted[1 : len(quoted)-1])
}

// parseTarget reads the URL of an endpoint. The template is for the request line.
func parseTarget(text string) (*url.URL, template, error) {
	_, err := url.Parse(text) // only a path or a query can have the places
	u, _ := url.Parse(toWords.Replace(text))
	if err != nil || u == nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, template{}, store.Invalidf("the URL of the endpoint cannot be read; write http://HOST/PATH")
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); err != nil && u.Port() != "" {
		return nil, template{}, store.Invalidf("the port %s of the URL is out of range", u.Port())
	}
	if strings.ContainsAny(u.Path+u.RawQuery, "{}") {
		return nil, template{}, store.Invalidf(
			"%q has braces that are not a place; the places are %s and %s, and %%7B is a brace",
			RedactURL(text), SubjectPlace, CostPlace)
	}
	u.Fragment, u.RawFragment = "", "" // it is never sent
	return u, template{toPlaces.Replace(u.RequestURI()), inURL}, nil
}

// RedactURL returns the URL of an endpoint in a form that can be shown: without its password, and without the
// values in its query but places.
func RedactURL(text string) string {
	u, err := url.Parse(toWords.Replace(text))
	switch {
	case !strings.Contains(text, "://"):
		return text
	case err != nil:
		return redact.Mark + " (it cannot be read)"
	}
	pairs := strings.Split(u.RawQuery, "&")
	for i, pair := range pairs {
		name, value, has := strings.Cut(pair, "=")
		if has && !strings.Contains(value, subjectWord) && !strings.Contains(value, costWord) {
			pairs[i] = name + "=" + redact.Mark
		}
	}
	u.RawQuery = strings.Join(pairs, "&")
	return toPlaces.Replace(u.Redacted())
}

// RedactHeader returns a header of a request in a form that can be shown: with its value only if that holds a place for
// who asks.
func RedactHeader(text string) string {
	name, value, _ := strings.Cut(text, ":")
	if strings.Contains(value, SubjectPlace) || strings.Contains(value, CostPlace) {
		return text
	}
	return name + ": " + redact.Mark
}
