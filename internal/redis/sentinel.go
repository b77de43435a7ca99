package redisserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/redact"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// sentinels are Sentinels that watch a master.
type sentinels struct {
	redis.FailoverOptions
	each    redis.Options // of the client of a Sentinel, without its address
	wait    time.Duration // for their answer; leaves time to connect to the master
	secrets *redact.Secrets
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// NewFailoverClient is [NewClient] for the master that Sentinels name. Replicas are never called.
//
// It is not go-redis' own, which waits for every Sentinel, so that no time would be left to connect if one of them
// hangs, and in whose goroutine a wrong answer ends the process.
func NewFailoverClient(options redis.FailoverOptions, timeout time.Duration) *redis.Client {
	s := newSentinels(options, timeout)
	master := sharedOptions(options)
	// The address is for errors; each connection goes to the current master.
	master.Addr = fmt.Sprintf("%s by Sentinel %s", s.MasterName, strings.Join(s.SentinelAddrs, ","))
	master.Dialer = s.dialMaster
	return NewClient(master, timeout)
}

// sharedOptions returns copies the options that both types have.
func sharedOptions(from redis.FailoverOptions) (to redis.Options) {
	target := reflect.ValueOf(&to).Elem()
	for name, value := range reflect.ValueOf(from).Fields() {
		if field := target.FieldByName(name.Name); field.IsValid() && field.CanSet() {
			field.Set(value)
		}
	}
	return to
}

func newSentinels(options redis.FailoverOptions, timeout time.Duration) *sentinels {
	each := sharedOptions(options)
	each.Username, each.Password, each.DB, each.OnConnect = options.SentinelUsername, options.SentinelPassword, 0, nil
	each.CredentialsProvider, each.CredentialsProviderContext, each.StreamingCredentialsProvider = nil, nil, nil
	each.MinIdleConns, each.PoolSize = 0, 1
	fit(&each, timeout)
	s := &sentinels{FailoverOptions: options, each: each, wait: each.DialTimeout / 2,
		secrets: redact.New(options.Password, options.SentinelPassword), dial: options.Dialer}
	switch {
	case s.dial != nil:
	case options.TLSConfig != nil:
		s.dial = (&tls.Dialer{Config: options.TLSConfig}).DialContext
	default:
		s.dial = new(net.Dialer).DialContext
	}
	return s
}

// client returns a client of the Sentinel at an address.
func (s *sentinels) client(address string) *redis.Client {
	options := s.each
	options.Addr = address
	client := redis.NewClient(&options)
	New(client, "").Guard()
	return client
}

// dialMaster is a dialer for [redis.Options]. Its errors are the limiter's: nothing was sent to the store yet.
func (s *sentinels) dialMaster(ctx context.Context, _, _ string) (net.Conn, error) {
	address, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := s.dial(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: redis at %s, the master %q by Sentinel, cannot be reached: %w",
			store.ErrUnavailable, s.secrets.Remove(address), s.MasterName, reason(dialError(err), s.secrets))
	}
	return conn, nil
}

// find asks all Sentinels concurrently and uses the first that knows the master.
func (s *sentinels) find(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	type answer struct {
		sentinel, address string
		err               error
	}
	answers := make(chan answer, len(s.SentinelAddrs)) // with a buffer for late answers
	for _, sentinel := range s.SentinelAddrs {
		var address string
		panics.Go(func() (err error) {
			client := s.client(sentinel)
			defer client.Close()
			address, err = s.ask(ctx, client)
			return err
		}, func(err error) { answers <- answer{sentinel, address, err} })
	}
	away := func(why error) error {
		return fmt.Errorf("%w: none of the Sentinels at %s can be reached: %w", store.ErrUnavailable,
			strings.Join(s.SentinelAddrs, ", "), why)
	}
	failed, refused := away(errors.New("no answer in time")), false
	for range s.SentinelAddrs {
		select {
		case a := <-answers:
			why := s.refusal(a.err)
			switch {
			case a.err == nil:
				return a.address, nil
			case why != nil:
				refused = true
				failed = fmt.Errorf("%w: the Sentinel at %s: %w", store.ErrRefused, a.sentinel, why)
			case !refused: // a refusal is more informative than silence
				failed = away(reason(a.err, s.secrets))
			}
		case <-ctx.Done():
			return "", failed
		}
	}
	return "", failed
}

// errNoAddress is about an answer of a Sentinel, which could be that of a proxy.
var errNoAddress error = &answerError{"its answer is not an address"}

// ask returns the address of the master, and [redis.Nil] if the Sentinel does not know it.
func (s *sentinels) ask(ctx context.Context, sentinel *redis.Client) (string, error) {
	words, err := sentinel.Do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.MasterName).StringSlice()
	if err != nil {
		return "", err
	}
	if len(words) != 2 || words[0] == "" || !isPort(words[1]) {
		return "", errNoAddress
	}
	return net.JoinHostPort(words[0], words[1]), nil
}

// refusal returns what a Sentinel has refused, and nil if it did not answer.
func (s *sentinels) refusal(err error) error {
	switch wrong := WrongAnswer(err); {
	case err == nil:
		return nil
	case errors.Is(err, redis.Nil):
		return fmt.Errorf("it knows no master %q", s.MasterName)
	case IsErrorReply(err, "NOAUTH"):
		return errors.New("it needs a sentinel_password")
	case IsErrorReply(err, "") && strings.Contains(err.Error(), "WRONGPASS"):
		return errors.New("wrong sentinel_username or sentinel_password")
	case IsErrorReply(err, "ERR unknown command"):
		return errors.New("it is a server, not a Sentinel; write redis:// to use it")
	case IsErrorReply(err, ""):
		return errors.New(s.secrets.Answer(strings.TrimPrefix(err.Error(), "ERR ")))
	case wrong != nil:
		return s.secrets.Error(wrong)
	}
	return nil
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

// Sentinels asks all Sentinels of the URL concurrently. It returns none for other URLs.
func (u *URL) Sentinels(ctx context.Context, a Access) ([]SentinelHealth, error) {
	config, err := u.tlsConfig(a)
	if err != nil || u.Kind != "redis+sentinel" {
		return nil, err
	}
	s := newSentinels(u.failover(a, config), a.Timeout)
	all := make([]SentinelHealth, len(u.Addresses))
	var asking panics.Group
	for i, address := range u.Addresses {
		asking.Go(func() {
			client := s.client(address)
			defer client.Close()
			all[i] = s.health(ctx, client)
			all[i].Address = address
		})
	}
	return all, asking.Wait()
}

// health asks one Sentinel about the master.
func (s *sentinels) health(ctx context.Context, sentinel *redis.Client) (h SentinelHealth) {
	about, err := sentinel.Do(ctx, "SENTINEL", "MASTER", s.MasterName).Result()
	if err != nil {
		h.Problem = reason(err, s.secrets)
		return h
	}
	fields := fieldsOf(about)
	others, _ := strconv.Atoi(fields["num-other-sentinels"])
	h.Known = others + 1
	h.Quorum, _ = strconv.Atoi(fields["quorum"])
	h.Down = strings.Contains(fields["flags"], "_down")
	if err := sentinel.Do(ctx, "SENTINEL", "CKQUORUM", s.MasterName).Err(); IsErrorReply(err, "NOQUORUM") {
		h.NoQuorum = s.secrets.Answer(strings.TrimPrefix(err.Error(), "NOQUORUM "))
	}
	return h
}

// fieldsOf reads an answer of names and values, in a list or, by RESP3, in a map.
func fieldsOf(answer any) map[string]string {
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
