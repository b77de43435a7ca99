package test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/internal/cli"
	"github.com/limitctl/limitctl/internal/endpoint"
	"github.com/limitctl/limitctl/internal/probe"
)

// addressHeaders are the headers in which proxies say who asks, with a place for an address.
var addressHeaders = []string{"X-Forwarded-For: {v}", "Forwarded: for={v}", "X-Real-IP: {v}"}

// ways returns the other ways to ask as the same client: over a new connection, as another address unless a header of
// the requests has one, and those of --same.
func (o *probeOptions) ways(url string) (ways []probe.Way, err error) {
	if endpoint.IsRLS(url) {
		if len(o.same) > 0 {
			return nil, cli.Usagef("--same is for HTTP")
		}
		return nil, nil
	}
	options, err := o.options(o.Globals, url)
	if err != nil {
		return nil, err
	}
	add := func(name string, change func(*endpoint.Options)) {
		open := func() (endpoint.Client, error) {
			other := options
			change(&other)
			return endpoint.New(other)
		}
		if client, wrong := open(); wrong != nil {
			err = wrong
		} else {
			client.Close()
		}
		ways = append(ways, probe.Way{Name: name, Open: open})
	}
	addHeader := func(header string) {
		add("with another "+headerName(header), func(other *endpoint.Options) {
			// Of 198.18.0.0/15, where nobody is, and which no server takes for a proxy of its own.
			address := fmt.Sprintf("198.%d.%d.%d", 18+rand.N(2), rand.N(256), 1+rand.N(254))
			other.Headers = append(slices.DeleteFunc(slices.Clone(other.Headers), func(given string) bool {
				return strings.EqualFold(headerName(given), headerName(header))
			}), strings.ReplaceAll(header, "{v}", address))
		})
	}
	if !options.NoKeepAlive {
		add("over a new connection", func(*endpoint.Options) {})
	}
	if !slices.ContainsFunc(options.Headers, func(given string) bool {
		return slices.ContainsFunc(addressHeaders, func(header string) bool {
			return strings.EqualFold(headerName(given), headerName(header))
		})
	}) {
		for _, header := range addressHeaders {
			addHeader(header)
		}
	}
	for _, text := range o.same {
		what, how, _ := strings.Cut(text, "=")
		switch {
		case what == "header" && strings.Contains(how, ":"):
			addHeader(how)
		case what == "path" && strings.HasPrefix(how, "/"):
			for path := range strings.SplitSeq(how, ",") {
				add("at "+path, func(other *endpoint.Options) { other.URL = withPath(url, path) })
			}
		default:
			return nil, cli.Usagef("--same %q must be path=/PATH,/PATH or header=NAME: VALUE", text)
		}
	}
	return ways, err
}

func headerName(header string) string {
	name, _, _ := strings.Cut(header, ":")
	return name
}

// withPath returns a URL with another path, and its query. It may have places in braces, which no parser takes.
func withPath(url, path string) string {
	scheme, rest, _ := strings.Cut(url, "://")
	rest, query, has := strings.Cut(rest, "?")
	host, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + host + path + map[bool]string{true: "?" + query}[has]
}
