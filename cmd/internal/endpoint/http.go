package endpoint

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
)

// SubjectPlace is what stands in a request where who asks belongs.
const SubjectPlace = "{subject}"

// HTTPOptions say which requests an HTTP endpoint gets.
type HTTPOptions struct {
	// URL may hold [SubjectPlace].
	URL string
	// DeniedStatus is the status of a denial; 0 means 429.
	DeniedStatus int
	// Permitted are hosts beyond loopback that may be tested.
	Permitted []string
}

// NewHTTP returns the client of an HTTP endpoint. What is wrong with the options is a
// [limiter.ErrInvalid].
func NewHTTP(options HTTPOptions) (Client, error) {
	target, err := url.Parse(strings.ReplaceAll(options.URL, SubjectPlace, "subject"))
	if err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" {
		return nil, limiter.Invalidf("%q is not the URL of an HTTP endpoint; write http://HOST/PATH", options.URL)
	}
	if err := CheckHost(target, options.Permitted); err != nil {
		return nil, err
	}
	if options.DeniedStatus == 0 {
		options.DeniedStatus = http.StatusTooManyRequests
	}
	return &httpClient{options: options, host: target.Host, transport: &http.Transport{
		MaxIdleConnsPerHost: 1 << 16, DisableCompression: true,
	}}, nil
}

type httpClient struct {
	options   HTTPOptions
	host      string
	transport *http.Transport
}

// maxBody is how much of an answer's body is read, so that its connection can be used again.
const maxBody = 64 << 10

// Connect implements [Client].
func (c *httpClient) Connect(ctx context.Context) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.host)
	if err != nil {
		return err
	}
	return conn.Close()
}

// Send implements [Client].
func (c *httpClient) Send(ctx context.Context, subject string, _ int64, answer *Answer) error {
	target := strings.ReplaceAll(c.options.URL, SubjectPlace, url.PathEscape(subject))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return err
	}
	answer.Sent = time.Now()
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return err
	}
	answer.Answered = time.Now()
	_, _ = io.CopyN(io.Discard, response.Body, maxBody)
	response.Body.Close()
	answer.Status, answer.Header = response.StatusCode, response.Header
	switch {
	case response.StatusCode == c.options.DeniedStatus:
		answer.Outcome = Denied
	case response.StatusCode >= 500:
		answer.Outcome = Failed
	default:
		answer.Outcome = Allowed
	}
	return nil
}

// Describe implements [Client].
func (c *httpClient) Describe() string { return c.options.URL }

// Close implements [Client].
func (c *httpClient) Close() error {
	c.transport.CloseIdleConnections()
	return nil
}
