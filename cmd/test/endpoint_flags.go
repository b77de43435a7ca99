package test

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/files"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// endpointFlags are the flags of commands that send requests to an endpoint.
type endpointFlags struct {
	denied   []int // statuses of denials
	hosts    []string
	request  endpoint.Options
	body     string
	insecure bool
	cacert   string
	cert     string
	key      string
	subjects string // a file
}

// Bounds of the files with bodies and subjects.
const (
	maxBodyFile     = 1 << 20
	maxSubjectsFile = 256 << 20
)

func (o *endpointFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntSliceVar(&o.denied, "denied-status", []int{http.StatusTooManyRequests},
		"`STATUS` of an endpoint's denials, or several with commas between")
	flags.StringArrayVar(&o.hosts, endpoint.TestHostFlag, nil, "send requests to `HOST`, which is not this machine")
	flags.StringVarP(&o.request.Method, "method", "X", "",
		"`METHOD` of the requests to an endpoint (default GET, or POST with --body)")
	flags.StringArrayVarP(&o.request.Headers, "header", "H", nil,
		"'`NAME: VALUE`' sent with each request to an endpoint; {subject} stands for who asks, {cost} for what it "+
			"costs (repeatable)")
	flags.StringVar(&o.body, "body", "",
		"`TEXT` sent with each request to an endpoint, or @FILE; may hold {subject} and {cost}, in JSON inside of "+
			"quotes")
	flags.StringVar(&o.subjects, "subjects", "", "names of subjects, such as keys of an API, from the lines of `FILE`")
	flags.BoolVar(&o.request.HTTP2, "http2", false,
		"speak HTTP/2 with an endpoint: over TLS if the URL is https, and h2c otherwise")
	flags.BoolVar(&o.request.NoKeepAlive, "no-keepalive", false,
		"open a new connection to an endpoint for each request")
	flags.BoolVar(&o.insecure, "insecure", false, "accept any certificate of an endpoint")
	flags.StringVar(&o.cacert, "cacert", "", "trust the authorities in `FILE` (PEM) for an endpoint's certificate")
	flags.StringVar(&o.cert, "cert", "", "show the certificate in `FILE` (PEM) to an endpoint")
	flags.StringVar(&o.key, "key", "", "the key of --cert is in `FILE` (PEM)")
	flags.StringVar(&o.request.Domain, "domain", "", "ask a rate limit service about the domain `NAME`")
	flags.StringArrayVar(&o.request.Descriptors, "descriptor", nil,
		"ask a rate limit service about a descriptor, `KEY=VALUE,...`; {subject} stands for who asks (repeatable)")
}

// httpFlags are the flags about the form of HTTP requests.
func httpFlags() []string {
	return []string{"denied-status", "method", "header", "body", "http2", "no-keepalive"}
}

// endpointOnlyFlags are the flags that only apply to the URL of an endpoint.
func endpointOnlyFlags() []string {
	return append(httpFlags(), "insecure", "cacert", "cert", "key", endpoint.TestHostFlag, "subjects", "domain",
		"descriptor")
}

// notInCalendar refuses windows of a calendar, since those of an endpoint are audited by their length.
func notInCalendar(limit *store.Limit) error {
	if limit.Calendar == nil {
		return nil
	}
	return cli.Usagef("limit %q: windows of a calendar are not for an endpoint; leave tz= out", limit)
}

// isEndpoint reports whether an argument is the URL of an endpoint.
func isEndpoint(text string) bool { return strings.Contains(text, "://") }

// client returns the client of the endpoint at a URL.
func (o *endpointFlags) client(g *cli.Globals, url string) (endpoint.Client, error) {
	options, err := o.options(g, url)
	if err != nil {
		return nil, err
	}
	return endpoint.New(options)
}

// options describes the requests to the endpoint at a URL.
func (o *endpointFlags) options(g *cli.Globals, url string) (options endpoint.Options, err error) {
	if !endpoint.IsRLS(url) && (o.request.Domain != "" || len(o.request.Descriptors) > 0) {
		return options, cli.Usagef("--domain and --descriptor are for a rate limit service, such as " +
			"grpc://127.0.0.1:8081")
	}
	if err := checkDenied(o.denied); err != nil {
		return options, err
	}
	options = o.request
	options.URL, options.DeniedStatuses, options.Permitted, options.Timeout = url, o.denied, o.hosts, g.Timeout
	options.UserAgent = "limitctl/" + g.Env.ProgramVersion() +
		" (rate limit test; https://github.com/limitctl/limitctl)"
	options.Body = o.body
	if path, isFile := strings.CutPrefix(o.body, "@"); isFile {
		text, err := files.Read(path, maxBodyFile)
		if err != nil {
			return options, cli.Usagef("--body: the file %q cannot be read: %s", path, cli.Cause(err))
		}
		options.Body = string(text)
	}
	options.TLS, err = o.tls()
	return options, err
}

// checkDenied reports a wrong --denied-status.
func checkDenied(statuses []int) error {
	if len(statuses) == 0 || slices.ContainsFunc(
		statuses, func(status int) bool { return status < 200 || status > 599 }) {
		return cli.Usagef("--denied-status must be statuses from 200 to 599, such as 429, with commas between")
	}
	return nil
}

// tls returns what the flags say about certificates; nil if nothing.
func (o *endpointFlags) tls() (*tls.Config, error) {
	if (o.cert == "") != (o.key == "") {
		return nil, cli.Usagef("give both --cert and --key")
	}
	if !o.insecure && o.cert == "" && o.cacert == "" {
		return nil, nil
	}
	texts := map[string][]byte{}
	for _, file := range [][2]string{{"cacert", o.cacert}, {"cert", o.cert}, {"key", o.key}} {
		if file[1] == "" {
			continue
		}
		text, err := files.ReadCertificate(file[1])
		if err != nil {
			return nil, cli.Usagef("--%s: the file %q cannot be read: %s", file[0], file[1], cli.Cause(err))
		}
		texts[file[0]] = text
	}
	config := &tls.Config{InsecureSkipVerify: o.insecure}
	if o.cert != "" {
		pair, err := tls.X509KeyPair(texts["cert"], texts["key"])
		if err != nil {
			return nil, cli.Usagef("--cert and --key are no pair: %s", strings.TrimPrefix(err.Error(), "tls: "))
		}
		config.Certificates = []tls.Certificate{pair}
	}
	if o.cacert != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(texts["cacert"]) {
			return nil, cli.Usagef("--cacert: %q holds no certificate; it must be a PEM file", o.cacert)
		}
	}
	return config, nil
}

// names returns the names of subjects; none if each shall have a new one.
func (o *endpointFlags) names() (names []string, err error) {
	if o.subjects == "" {
		return nil, nil
	}
	text, err := files.Read(o.subjects, maxSubjectsFile)
	if err != nil {
		return nil, cli.Usagef("--subjects: the file %q cannot be read: %s", o.subjects, cli.Cause(err))
	}
	seen, number := map[string]bool{}, 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.TrimSpace(line) == "":
			continue
		// it may be secret
		case seen[line], strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }):
			return nil, cli.Usagef("--subjects: line %d of %q is there already, or has a control character", number,
				o.subjects)
		}
		seen[line] = true
		names = append(names, line)
	}
	if len(names) == 0 {
		return nil, cli.Usagef("--subjects: %q names no subject; write one a line", o.subjects)
	}
	return names, nil
}
