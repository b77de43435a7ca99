package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redact"
	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/internal/sys"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	sentinelForm = "://[user[:password]@]host[:port][,host[:port]…]/MASTER[/db]"
	sentinelPort = "26379"
)

// sentinelClient returns a client of the master that Sentinels name.
//
// It does not use [redis.NewFailoverClient], which waits for every Sentinel. If one of them hangs, no time would be
// left to connect.
func sentinelClient(u *redisURL, options Options) (redis.UniversalClient, error) {
	addresses, err := u.addresses(sentinelPort)
	if err != nil {
		return nil, err
	}
	master, database, err := u.master()
	if err != nil {
		return nil, err
	}
	settings := &redis.Options{
		// The address is for errors; each connection goes to the current master.
		Addr:     fmt.Sprintf("%s by Sentinel %s", master, strings.Join(addresses, ",")),
		Username: u.User,
		Password: u.Password,
	}
	if settings.DB, err = u.database(database); err != nil {
		return nil, err
	}
	if err := u.onlyOptions(redisserver.SentinelUser, redisserver.SentinelPassword); err != nil {
		return nil, err
	}
	if u.option(redisserver.SentinelUser) != "" && u.option(redisserver.SentinelPassword) == "" {
		return nil, badURL("sentinel_username needs sentinel_password")
	}
	config, err := u.tlsConfig(options)
	if err != nil {
		return nil, err
	}
	settings.Dialer = u.watched(addresses, config, options).Dial
	return newClient(settings, options), nil
}

// master returns the name of the master and the database behind it.
func (u *redisURL) master() (name, database string, err error) {
	name, database, _ = strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	name, err = url.PathUnescape(name)
	if err != nil || name == "" {
		return "", "", badURL("it does not name a master; write %s", u.form)
	}
	return name, database, nil
}

// watched returns the master of the Sentinels at addresses; config is nil without TLS.
func (u *redisURL) watched(addresses []string, config *tls.Config, options Options) *watchedMaster {
	name, _, _ := u.master()
	m := &watchedMaster{name: name, sentinels: addresses, wait: options.Timeout / 2, secrets: u.secrets(options),
		protocol: portProtocolOf(config, options), dialer: &net.Dialer{}}
	m.ask = func(ctx context.Context, sentinel string) (string, error) {
		client := u.sentinel(sentinel, config, options)
		defer client.Close()
		return askSentinel(ctx, client, name)
	}
	if config != nil {
		m.dialer = &tls.Dialer{Config: config}
	}
	return m
}

// sentinel returns a client of the Sentinel at an address; config is nil without TLS.
func (u *redisURL) sentinel(address string, config *tls.Config, options Options) *redis.Client {
	client := newClient(&redis.Options{Addr: address, Username: u.option(redisserver.SentinelUser),
		Password: u.option(redisserver.SentinelPassword), TLSConfig: config}, options)
	redisserver.Guard(client)
	return client
}

// askSentinel returns the address of the master with that name, and [redis.Nil] if the Sentinel does not know it.
func askSentinel(ctx context.Context, sentinel *redis.Client, name string) (string, error) {
	words, err := sentinel.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name).StringSlice()
	if err != nil {
		return "", err
	}
	if len(words) != 2 || !isHost(words[0]) {
		return "", errNoAddress
	}
	if port, err := strconv.ParseUint(words[1], 10, 16); err != nil || port == 0 {
		return "", errNoAddress
	}
	return net.JoinHostPort(words[0], words[1]), nil
}

// errNoAddress: the answer of a Sentinel is no address.
var errNoAddress = errors.New("what it gives for the master is not an address")

// isHost reports whether a text is an IP address, with or without a zone, or can be a host name.
func isHost(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) // a zone can be anything
	}
	return text != "" && len(text) <= 253 && !strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.", r))
	})
}

// watchedMaster connects to the current master of Sentinels.
type watchedMaster struct {
	name      string
	sentinels []string
	wait      time.Duration // leaves time to connect to the master
	secrets   *redact.Secrets
	protocol  portProtocol
	ask       func(ctx context.Context, sentinel string) (address string, err error)
	dialer    interface {
		DialContext(ctx context.Context, network, address string) (net.Conn, error)
	}
}

// Dial is a dialer for [redis.Options]. Its errors are the limiter's: nothing was sent to the store yet.
func (m *watchedMaster) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	address, err := m.find(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := m.protocol.dial(ctx, "tcp", address, m.dialer.DialContext)
	if err != nil {
		return nil, fmt.Errorf("%w: redis at %s, the master %q by Sentinel, cannot be reached: %w",
			store.ErrUnavailable, m.secrets.Remove(address), m.name, m.plain(err))
	}
	return conn, nil
}

// find asks all Sentinels concurrently and uses the first that knows the master.
func (m *watchedMaster) find(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, m.wait)
	defer cancel()
	type answer struct {
		sentinel, address string
		err               error
	}
	answers := make(chan answer, len(m.sentinels)) // with a buffer for late answers
	for _, sentinel := range m.sentinels {
		var address string
		panics.Go(func() (err error) {
			address, err = m.ask(ctx, sentinel)
			return err
		}, func(err error) { answers <- answer{sentinel, address, err} })
	}
	failed := fmt.Errorf("%w: none of the Sentinels at %s can be reached: no answer in time",
		store.ErrUnavailable, strings.Join(m.sentinels, ", "))
	refused := false
	for range m.sentinels {
		var a answer
		select {
		case a = <-answers:
		case <-ctx.Done():
			return "", failed
		}
		var reply redis.Error
		switch wrong := wrongAnswer(a.err); {
		case a.err == nil:
			return a.address, nil
		case wrong != nil:
			refused = true
			failed = fmt.Errorf("%w: the Sentinel at %s: %w", store.ErrRefused, a.sentinel, m.secrets.Error(wrong))
		case errors.Is(a.err, redis.Nil):
			refused = true
			failed = fmt.Errorf("%w: the Sentinel at %s knows no master %q", store.ErrRefused, a.sentinel, m.name)
		case errors.As(a.err, &reply):
			refused = true
			failed = fmt.Errorf("%w: the Sentinel at %s: %s", store.ErrRefused, a.sentinel, m.explain(reply))
		case !refused: // a refusal is more informative than silence
			failed = fmt.Errorf("%w: none of the Sentinels at %s can be reached: %w",
				store.ErrUnavailable, strings.Join(m.sentinels, ", "), m.plain(a.err))
		}
	}
	return "", failed
}

// wrongAnswer returns what is wrong with a Sentinel's answer, nil for any other error.
func wrongAnswer(err error) error {
	if err == nil || errors.Is(err, redis.Nil) { // the latter means that it does not know the master
		return nil
	}
	if errors.Is(err, errNoAddress) {
		return err
	}
	return redisserver.WrongAnswer(err)
}

// explain explains a Sentinel's refusal.
func (m *watchedMaster) explain(reply redis.Error) string {
	switch answer := reply.Error(); {
	case strings.HasPrefix(answer, "NOAUTH"):
		return "it needs a password; give ?sentinel_password=…"
	case strings.Contains(answer, "WRONGPASS"):
		return "wrong sentinel_username or sentinel_password"
	case strings.HasPrefix(answer, "ERR unknown command"):
		return "it is a server, not a Sentinel; write redis:// to use it"
	default:
		return m.secrets.Answer(strings.TrimPrefix(answer, "ERR "))
	}
}

// plain removes secrets, and the operation and the address, which the message already has.
func (m *watchedMaster) plain(err error) error {
	var operation *net.OpError
	var system syscall.Errno
	switch {
	case sys.IsTimeout(err):
		return errors.New("no answer in time")
	case errors.As(err, &operation) && errors.As(operation.Err, &system):
		return operation.Err
	case errors.As(err, &operation):
		return m.secrets.Error(operation.Err)
	}
	return m.secrets.Error(err)
}

// SentinelHealth is the answer of one Sentinel about the master.
type SentinelHealth struct {
	Address string
	// Problem says why the fields below are unknown; nil if they are known.
	Problem error
	// Known is the number of Sentinels that it knows, including itself; Quorum is how many have to agree that the
	// master is down.
	Known, Quorum int
	// NoQuorum says why too few are reachable to replace the master; empty if there are enough.
	NoQuorum string
	// Down: it considers the master down.
	Down bool
}

// SentinelsOf asks all Sentinels of a URL concurrently. It returns none for other URLs.
func SentinelsOf(ctx context.Context, text string, options Options) ([]SentinelHealth, error) {
	scheme, _, _ := strings.Cut(text, ":")
	if !strings.HasSuffix(scheme, "+sentinel") {
		return nil, nil
	}
	u, err := parseRedisURL(text)
	if err != nil {
		return nil, err
	}
	config, err := u.tlsConfig(options)
	if err != nil {
		return nil, err
	}
	addresses, err := u.addresses(sentinelPort)
	if err != nil {
		return nil, err
	}
	m := u.watched(addresses, config, options)
	all := make([]SentinelHealth, len(addresses))
	var asking panics.Group
	for i, address := range addresses {
		asking.Go(func() {
			client := u.sentinel(address, config, options)
			defer client.Close()
			all[i] = m.health(ctx, client)
			all[i].Address = address
		})
	}
	return all, asking.Wait()
}

// health asks one Sentinel about the master.
func (m *watchedMaster) health(ctx context.Context, sentinel *redis.Client) (h SentinelHealth) {
	about, err := sentinel.Do(ctx, "SENTINEL", "MASTER", m.name).Result()
	if err != nil {
		h.Problem = m.plain(err)
		return h
	}
	fields := FieldsOf(about)
	others, _ := strconv.Atoi(fields["num-other-sentinels"])
	h.Known = others + 1
	h.Quorum, _ = strconv.Atoi(fields["quorum"])
	h.Down = strings.Contains(fields["flags"], "_down")
	if err := sentinel.Do(ctx, "SENTINEL", "CKQUORUM", m.name).Err(); redisserver.IsErrorReply(err, "NOQUORUM") {
		h.NoQuorum = m.secrets.Answer(strings.TrimPrefix(err.Error(), "NOQUORUM "))
	}
	return h
}

// FieldsOf reads an answer of names and values, in a list or, by RESP3, in a map.
func FieldsOf(answer any) map[string]string {
	fields := map[string]string{}
	switch answer := answer.(type) {
	case map[any]any:
		for name, value := range answer {
			fields[fmt.Sprint(name)] = fmt.Sprint(value)
		}
	case []any:
		for i := 0; i+1 < len(answer); i += 2 {
			fields[fmt.Sprint(answer[i])] = fmt.Sprint(answer[i+1])
		}
	}
	return fields
}
