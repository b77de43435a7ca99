package endpoint

import (
	"context"
	"crypto/rand"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/limitctl/limitctl/internal/rls"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// IsRLS reports whether a URL is for an Envoy rate limit service.
func IsRLS(target string) bool {
	scheme, _, _ := strings.Cut(target, "://")
	return strings.EqualFold(scheme, "grpc") || strings.EqualFold(scheme, "grpcs")
}

// newRLS returns the client of an Envoy rate limit service.
func newRLS(t *httpTarget) (Client, error) {
	var err error
	if t.url, err = url.Parse(t.URL); err != nil || t.url.Hostname() == "" || t.url.Port() == "" || t.url.User != nil ||
		t.url.Path != "" && t.url.Path != "/" || t.url.RawQuery != "" {
		return nil, store.Invalidf("%q is not the URL of a rate limit service; write grpc://HOST:PORT, or grpcs:// "+
			"for TLS", RedactURL(t.URL))
	}
	t.address, t.url.Scheme = t.url.Host, strings.Replace(strings.ToLower(t.url.Scheme), "grpc", "http", 1)
	if err := t.checkConnection(); err != nil {
		return nil, err
	}
	if t.Domain == "" || len(t.Descriptors) == 0 {
		return nil, store.Invalidf("a rate limit service needs a domain and a descriptor; " +
			"add --domain NAME --descriptor 'KEY={subject}'")
	}
	c := &rlsClient{httpTarget: t}
	if c.metadata, err = callMetadata(t.Headers); err != nil {
		return nil, err
	}
	for _, text := range t.Descriptors {
		descriptor, err := parseDescriptor(text)
		if err != nil {
			return nil, err
		}
		c.descriptors = append(c.descriptors, descriptor)
	}
	return c, nil
}

// callMetadata returns the metadata of each call.
func callMetadata(headers []string) (metadata.MD, error) {
	all := metadata.MD{}
	for _, text := range headers {
		h, err := parseHeader(text)
		switch {
		case err != nil:
			return nil, err
		case slices.Contains([]string{"Host", "Content-Type", "User-Agent"}, h.name),
			strings.HasPrefix(h.name, "Grpc-"), len(all.Get(h.name)) > 0:
			return nil, notOurs(h.name)
		case !h.value.isFixed():
			return nil, store.Invalidf(
				"--header %s is the same for all calls of a rate limit service; put %s into a --descriptor", h.name,
				SubjectPlace)
		}
		all.Set(h.name, h.value.text)
	}
	return all, nil
}

// parseDescriptor reads a descriptor: KEY=VALUE,KEY=VALUE… A value can contain [SubjectPlace]. An error is a
// [store.ErrInvalid].
func parseDescriptor(text string) (d rls.Descriptor, err error) {
	for entry := range strings.SplitSeq(text, ",") {
		if strings.HasSuffix(entry, `\`) {
			return d, store.Invalidf("--descriptor %q: a value has no comma", text)
		}
		key, value, found := strings.Cut(entry, "=")
		if !found || key == "" {
			return d, store.Invalidf(
				"--descriptor %q: %q is not KEY=VALUE; write for example remote_address={subject},path=/login",
				text, entry)
		}
		d.Entries = append(d.Entries, rls.Entry{Key: key, Value: value})
	}
	return d, nil
}

type rlsClient struct {
	*httpTarget
	metadata    metadata.MD      // of each call
	descriptors []rls.Descriptor // values can contain SubjectPlace

	mu    sync.Mutex
	lines []*line
}

// Places implements [Client]. The cost is in every request.
func (c *rlsClient) Places() (subject, cost bool) {
	return strings.Contains(c.Domain, SubjectPlace) || slices.ContainsFunc(c.descriptors, func(d rls.Descriptor) bool {
		return slices.ContainsFunc(d.Entries, func(e rls.Entry) bool { return strings.Contains(e.Value, SubjectPlace) })
	}), true
}

// Connect implements [Client]: it peeks at the limit of a subject that is never used again.
func (c *rlsClient) Connect(ctx context.Context) error {
	var answer Answer
	if err := c.ask(ctx, "nobody-"+strings.ToLower(rand.Text()[:8]), 0, &answer); err != nil {
		return err
	}
	if answer.Outcome == Failed {
		kind := store.ErrRefused
		if code := codes.Code(answer.Status); code == codes.Unavailable || code == codes.DeadlineExceeded {
			kind = store.ErrUnavailable
		}
		return &sendError{text: c.Describe() + " " + answer.Reason, kind: kind, cause: errFailedCall}
	}
	return nil
}

// Send implements [Client]. The cost is the hits of the request.
func (c *rlsClient) Send(ctx context.Context, subject string, cost int64, answer *Answer) error {
	if cost < 1 || cost > math.MaxUint32 {
		return store.Invalidf("the cost %d cannot be asked for; a rate limit service takes 1 to %d hits", cost,
			uint32(math.MaxUint32))
	}
	return c.ask(ctx, subject, uint32(cost), answer)
}

// ask sends a request with that many hits. 0 means without a charge; a service that is too old for it charges a unit.
func (c *rlsClient) ask(ctx context.Context, subject string, hits uint32, answer *Answer) error {
	response, err := c.call(ctx, rls.AppendRequest(make([]byte, 0, 256), c.request(subject, hits)), answer)
	if err != nil || answer.Outcome == Failed {
		return err
	}
	return answer.tell(response)
}

// request returns the request of a subject.
func (c *rlsClient) request(subject string, hits uint32) *rls.Request {
	r := &rls.Request{
		Domain: strings.ReplaceAll(c.Domain, SubjectPlace, subject), Hits: hits,
		Descriptors: make([]rls.Descriptor, len(c.descriptors)),
	}
	for i := range c.descriptors {
		template, d := c.descriptors[i].Entries, &r.Descriptors[i]
		d.HasHits = hits == 0
		d.Entries = make([]rls.Entry, len(template))
		for j := range template {
			d.Entries[j] = rls.Entry{
				Key: template[j].Key, Value: strings.ReplaceAll(template[j].Value, SubjectPlace, subject)}
		}
	}
	return r
}

// tell fills in the answer of a service.
func (a *Answer) tell(message []byte) error {
	response, err := rls.ReadResponse(message)
	if err != nil {
		return &sendError{text: err.Error(), kind: store.ErrOutcomeUnknown, cause: err}
	}
	switch response.Overall {
	case rls.OK:
		a.Outcome = Allowed
	case rls.OverLimit:
		a.Outcome = Denied
	default:
		a.Outcome, a.Reason = Failed, "answered neither OK nor OVER_LIMIT"
	}
	a.Header = make(http.Header, len(response.Headers))
	for _, h := range response.Headers {
		a.Header.Add(h.Name, h.Value)
	}
	a.Statuses = response.Statuses
	return nil
}
