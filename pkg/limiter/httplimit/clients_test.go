package httplimit

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func networks(texts ...string) (list []netip.Prefix) {
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}

func requestFrom(peer string, fields ...string) *http.Request {
	r := &http.Request{RemoteAddr: peer, Header: http.Header{}}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Add(fields[i], fields[i+1])
	}
	return r
}

func TestClients(t *testing.T) {
	const x, f = XForwardedFor, Forwarded
	proxies := Clients{Trusted: networks("10.0.0.0/8", "fd00::/8", "::1/128")}
	rfc := Clients{Trusted: proxies.Trusted, Header: "forwarded"}
	real := Clients{Trusted: proxies.Trusted, Header: "x-real-ip"}
	for _, test := range []struct {
		what    string
		clients *Clients
		peer    string
		fields  []string
		want    string
	}{
		{"a direct client", &proxies, "192.0.2.1:1234", nil, "192.0.2.1"},
		{"a direct client that names another", &proxies, "192.0.2.1:1234",
			[]string{x, "198.51.100.7", f, "for=198.51.100.7"}, "192.0.2.1"},
		{"nobody is trusted", &Clients{}, "10.0.0.1:1", []string{x, "198.51.100.7"}, "10.0.0.1"},
		{"IPv6 in another size", &Clients{IPv6Bits: 48}, "[2001:db8:1:2:3:4:5:6]:1234", nil, "2001:db8:1::/48"},
		{"a size that no address has", &Clients{IPv6Bits: 129}, "[2001:db8::1]:1234", nil, ""},
		{"a translator with a proxy's address", &proxies, "[64:ff9b::10.0.0.1]:1234", []string{x, "192.0.2.1"},
			"10.0.0.1"},
		{"a Unix socket", &proxies, "@", []string{x, "192.0.2.1"}, ""},

		{"one proxy, IPv6 with a zone", &proxies, "10.0.0.1:1", []string{x, "fe80::1%" + strings.Repeat("z", 50)},
			"fe80::/64"},
		{"a client that claims to be a proxy", &proxies, "10.0.0.1:1", []string{x, "198.51.100.7, 10.0.0.9, 192.0.2.1"},
			"192.0.2.1"},
		{"empty members", &proxies, "10.0.0.1:1", []string{x, "192.0.2.1,, ,", x, "", x, " ,"}, "192.0.2.1"},
		{"garbage that a proxy sent", &proxies, "10.0.0.1:1", []string{x, "192.0.2.1, unknown, 10.0.0.2"}, "10.0.0.2"},
		{"the longest chain that is looked at", &proxies, "10.0.0.1:1",
			[]string{x, "198.51.100.7, 192.0.2.1" + strings.Repeat(",10.0.0.2", maxHops-1)}, "192.0.2.1"},
		{"one more than is looked at", &proxies, "10.0.0.1:1",
			[]string{x, "192.0.2.1" + strings.Repeat(",10.0.0.2", maxHops)}, "10.0.0.2"},

		{"Forwarded, IPv6 with a hidden port", &rfc, "10.0.0.1:1",
			[]string{f, `by=_x ; for="[2001:db8:cafe::17]:_p"`}, "2001:db8:cafe::/64"},
		{"Forwarded, a client's host with a quote", &rfc, "10.0.0.1:1",
			[]string{f, `for=192.0.2.1;host="x,for=9.9.9.9;by=\""`}, "10.0.0.1"},
		{"Forwarded, hidden", &rfc, "10.0.0.1:1", []string{f, "for=192.0.2.1, for=_secret, for=10.0.0.2"}, "10.0.0.2"},
		{"Forwarded, for twice", &rfc, "10.0.0.1:1", []string{f, "for=192.0.2.1;for=198.51.100.7"}, "10.0.0.1"},
		{"Forwarded, a quote that a proxy left open", &rfc, "10.0.0.1:1", []string{f, `for=192.0.2.1, for="10.0.0.2`},
			"10.0.0.1"},
		{"Forwarded, a longer chain than is looked at", &rfc, "10.0.0.1:1",
			[]string{f, "for=192.0.2.1" + strings.Repeat(",for=10.0.0.2", 5000)}, "10.0.0.2"},

		{"a field of one address", &real, "10.0.0.1:1", []string{"X-Real-IP", "192.0.2.1", x, "198.51.100.7"},
			"192.0.2.1"},
	} {
		if got := test.clients.Of(requestFrom(test.peer, test.fields...)); got != test.want {
			t.Errorf("%s: the client is %q, not %q", test.what, got, test.want)
		}
	}
}

// What operators and other services write is the client that a request has.
func TestClient(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.1": "192.0.2.1", "192.0.2.1:443": "192.0.2.1", "::ffff:192.0.2.1": "192.0.2.1",
		"[::ffff:c000:201]:443": "192.0.2.1",
		"2001:DB8:0:1:0::1":     "2001:db8:0:1::/64", "[2001:db8:0:1::]": "2001:db8:0:1::/64",
		"fe80::1%eth0": "fe80::/64",
		// The networks of translators, at their bounds and beside them.
		"64:ff9b::0.0.0.1": "0.0.0.1", "64:ff9b::255.255.255.255": "255.255.255.255", "64:ff9b::": "64:ff9b::/64",
		"64:ff9a:ffff:ffff:ffff:ffff:c633:6401": "64:ff9a:ffff:ffff::/64", "64:ff9b::1:0:1": "64:ff9b::/64",
		"64:ff9b:1::c633:6401": "198.51.100.1", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff": "255.255.255.255",
		"64:ff9b:1:c633:64:100::": "64:ff9b:1:c633::/64", "64:ff9b:2::1": "64:ff9b:2::/64",
		"::ffff:0:198.51.100.7": "198.51.100.7", "::ffff:0:ffff:ffff": "255.255.255.255",
		"::fffe:ffff:c633:6407": "::/64",
		"::ffff:1:c633:6407":    "::/64",
		// A network is a client if it is that of one, or a part of it.
		"2001:db8:0:1::/64": "2001:db8:0:1::/64", "2001:db8:0:1::9/64": "2001:db8:0:1::/64", "2001:db8::/63": "",
		"2001:db8::1/65": "2001:db8::/64", "2001:db8::1/128": "2001:db8::/64", "2001:db8::1/129": "",
		"2001:db8::/+80":     "",
		"::ffff:1.2.3.4/127": "", "::ffff:1.2.3.4/128": "1.2.3.4", "192.0.2.1/128": "",
		"192.0.2.0/31": "", "192.0.2.1/32": "192.0.2.1", "192.0.2.1/33": "", "": "", "unknown": "", "192.0.2.256": "",
		"2001:db8::g": "",
	} {
		if got, ok := new(Clients).Client(text); ok != (want != "") || ok && got != want {
			t.Errorf("%q is the client %q, %v, want %q", text, got, ok, want)
		}
	}
	settings := &Settings{Clients: Clients{IPv6Bits: 128}, Rules: map[string]Rule{
		"login": {Attributes: map[string]Source{
			"ip": MustSource("client"), "hash": MustSource("hash:client"), "user": MustSource("header:X-User")}}}}
	for about, want := range map[[2]string]string{
		{"login", "ip"}: "2001:db8::1", {"login", "hash"}: "2001:DB8::1", {"login", "user"}: "2001:DB8::1",
		{"login", "no"}: "2001:DB8::1",
		{"other", "ip"}: "2001:DB8::1",
	} {
		if got := settings.Client(about[0], about[1], "2001:DB8::1"); got != want {
			t.Errorf("%s is %s, want %s", about, got, want)
		}
	}
}

func isProxy(client string) bool { return strings.HasPrefix(client, "10.") || client == "fd00::/64" }

// Whatever a client sends, the proxies decide who it is: it cannot become another client or hide among those that
// send the same.
func TestNobodyChoosesAnAddress(t *testing.T) {
	claims := rapid.SliceOfN(rapid.OneOf(
		rapid.StringMatching(`[ -~]{0,40}`),
		rapid.SampledFrom([]string{
			"198.51.100.7", "10.0.0.1", "for=10.0.0.1", `for="`, `"`, `\`, `for="\`, ",", `for=unknown;by="`, "[",
			"for=\"[::1]\"",
			strings.Repeat("10.0.0.1,", 200), strings.Repeat("for=10.0.0.1,", 200), strings.Repeat(`\`, 2000),
			strings.Repeat(`"`, 2000),
		}),
	), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		client := rapid.SampledFrom([]string{"192.0.2.1", "2001:db8:1::9", "::ffff:192.0.2.9"}).Draw(t, "client")
		want := map[string]string{"192.0.2.1": "192.0.2.1", "2001:db8:1::9": "2001:db8:1::/64",
			"::ffff:192.0.2.9": "192.0.2.9"}[client]
		clients := Clients{Trusted: networks("10.0.0.0/8", "fd00::/8")}
		clients.Header = rapid.SampledFrom([]string{"", Forwarded, "X-Client"}).Draw(t, "field")
		sent := claims.Draw(t, "lines of the field that the client sends")
		quoted := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[ -~]{1,40}`),
			rapid.StringMatching(`.?[",;]for=9.9.9.9[",;]?[ -~]{0,9}`)).Draw(t, "host")
		peer := client
		for _, proxy := range rapid.SliceOfN(rapid.SampledFrom([]string{"10.0.0.1", "10.9.9.9", "fd00::7"}), 0, 5).Draw(
			t, "proxies") {
			member := peer
			if clients.Header == Forwarded {
				member = `proto=http;for="` + peer + `";by="_p"`
				if strings.Contains(peer, ":") {
					member = `for="[` + peer + `]:443"`
				}
				if quoted != "" {
					member += `;host="` + strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(quoted) + `"`
				}
			}
			if len(sent) > 0 && rapid.Bool().Draw(t, "in the last line") {
				sent[len(sent)-1] += ", " + member
			} else {
				sent = append(sent, member)
			}
			peer = proxy
		}
		r := &http.Request{RemoteAddr: netip.AddrPortFrom(netip.MustParseAddr(peer), 443).String(),
			Header: http.Header{}}
		r.Header[http.CanonicalHeaderKey(clients.field())] = sent
		for _, other := range []string{XForwardedFor, Forwarded, "X-Real-Ip"} {
			if other != http.CanonicalHeaderKey(clients.field()) {
				r.Header[other] = claims.Draw(t, "lines of another field")
			}
		}
		// A proxy that quotes what the client chose as the host can be taken for the client, but nobody else can.
		if got := clients.Of(r); got != want && (quoted == "" || !isProxy(got)) {
			t.Fatalf("%s through %s with %q is taken for %q", client, r.RemoteAddr, r.Header, got)
		}
	})
}
