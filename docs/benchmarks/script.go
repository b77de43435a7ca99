package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

const (
	// scriptDepth is the number of calls in a pipeline, and scriptConns the number of connections, so that the
	// server never waits for the client.
	scriptDepth = 64
	scriptConns = 2
	// scriptMerged is the number of decisions in a merged call.
	scriptMerged = 32
)

// scriptCall is a script call that is measured by the server's processor time alone.
type scriptCall struct {
	name      string
	decisions int                       // of one call
	words     func(keys []string) []any // one call for that many keys
}

// scriptSection measures the scripts themselves: pipelined calls that keep one core of the server busy, so that
// neither a client library nor a round trip counts.
func scriptSection(ctx context.Context, p plan, out io.Writer) error {
	return withRedisServer(func(server *redistest.Process, client *redis.Client) error {
		calls, err := scriptCalls(ctx, client)
		if err != nil {
			return err
		}
		keys := subjects(manyKeys)
		perSecond, cpu := make([][]float64, len(calls)), make([][]float64, len(calls))
		for round := range p.rounds {
			progress("script: round %d of %d", round+1, p.rounds)
			for i, call := range calls {
				rate, used, err := replay(ctx, client, server.Addr, call, keys, p.duration)
				if err != nil {
					return fmt.Errorf("%s: %w", call.name, err)
				}
				if round > 0 || p.rounds == 1 { // in the first round the keys are new
					perSecond[i], cpu[i] = append(perSecond[i], rate), append(cpu[i], used)
				}
			}
		}
		fmt.Fprintf(out, "\n### Redis: the scripts alone, %d calls deep over %s keys\n", scriptDepth, thousands(manyKeys))
		rows := [][]string{{"", "decisions per second", "÷ redis_rate's", "server CPU a decision", "redis_rate's ÷ its"}}
		for i, call := range calls {
			rows = append(rows, []string{call.name, thousands(median(perSecond[i])), ratioOf(perSecond[i], perSecond[0]),
				fmt.Sprintf("%.2f µs", median(cpu[i])), ratioOf(cpu[0], cpu[i])})
		}
		table(out, rows...)
		return nil
	})
}

// scriptCalls returns the calls to measure, redis_rate's script first.
func scriptCalls(ctx context.Context, client *redis.Client) ([]scriptCall, error) {
	theirs, err := redisRateWords(ctx, client)
	if err != nil {
		return nil, err
	}
	limit, err := store.Limit{Count: int64(manyKeysQuota.count), Period: manyKeysQuota.period}.Normalize()
	if err != nil {
		return nil, err
	}
	request := binary.BigEndian.AppendUint32(limit.AppendPacked(nil), 1)
	storeKey := func(subject string) string {
		return admin.OwnLayout(store.DefaultPrefix).StoreKey(store.Key{Subject: subject, Name: limit.DefaultName()})
	}
	packed := "t" + string(request)
	run := string(rune(scriptMerged)) + "t\x01\x00\x01" + string(request)
	load := func(source string) (string, error) { return client.ScriptLoad(ctx, source).Result() }
	one, err := load(lua.DecideOne(limit.Kind()))
	if err != nil {
		return nil, err
	}
	several, err := load(lua.DecideNumbers())
	if err != nil {
		return nil, err
	}
	many, err := load(lua.DecideMany(limit.Kind()))
	if err != nil {
		return nil, err
	}
	bare, err := load(getAndSet)
	if err != nil {
		return nil, err
	}
	bareKeys := func(subjects []string) []any {
		words := make([]any, len(subjects))
		for i, subject := range subjects {
			words[i] = "bare:" + subject
		}
		return words
	}
	storeKeys := func(subjects []string) []any {
		words := make([]any, 0, len(subjects)+4)
		for _, subject := range subjects {
			words = append(words, storeKey(subject))
		}
		return words
	}
	evalsha := func(sha string, keys []any, arguments ...any) []any {
		return append(append([]any{"evalsha", sha, len(keys)}, keys...), arguments...)
	}
	return []scriptCall{
		{name: "redis_rate's script", decisions: 1, words: theirs},
		{name: "limitctl, one take", decisions: 1, words: func(s []string) []any { return evalsha(one, storeKeys(s), packed) }},
		{name: "limitctl, one take by the script for several limits", decisions: 1,
			words: func(s []string) []any { return evalsha(several, storeKeys(s), packed) }},
		{name: fmt.Sprintf("limitctl, %d takes merged", scriptMerged), decisions: scriptMerged, words: func(s []string) []any {
			return evalsha(many, storeKeys(s), run)
		}},
		{name: fmt.Sprintf("GET and SET of %d keys", scriptMerged), decisions: scriptMerged, words: func(s []string) []any {
			return evalsha(bare, bareKeys(s), strings.Repeat("x", limit.Kind().RecordSize()))
		}},
	}, nil
}

// getAndSet only reads and writes each key, with an expiry like that of limits.
const getAndSet = `
for i = 1, #KEYS do
  redis.call('GET', KEYS[i])
  redis.call('SET', KEYS[i], ARGV[1], 'PXAT', '4102444800000')
end
return ARGV[1]`

// redisRateWords learns from redis_rate how it calls its script.
func redisRateWords(ctx context.Context, client *redis.Client) (func(keys []string) []any, error) {
	var learned []any
	listening := redis.NewClient(&redis.Options{Addr: client.Options().Addr})
	defer listening.Close()
	listening.AddHook(words(func(args []any) {
		if name, _ := args[0].(string); strings.HasPrefix(name, "eval") {
			learned = append(learned[:0:0], args...)
		}
	}))
	limit := redis_rate.Limit{Rate: manyKeysQuota.count, Burst: manyKeysQuota.count, Period: manyKeysQuota.period}
	for range 2 { // the second uses the script's hash
		if _, err := redis_rate.NewLimiter(listening).Allow(ctx, "user:1", limit); err != nil {
			return nil, err
		}
	}
	if len(learned) < 4 || learned[0] != "evalsha" {
		return nil, errors.New("redis_rate does not call a script by its name")
	}
	return func(keys []string) []any {
		call := append([]any(nil), learned...)
		call[3] = "rate:" + keys[0]
		return call
	}, nil
}

// words is a [redis.Hook] that gets each command's words.
type words func(args []any)

func (w words) DialHook(next redis.DialHook) redis.DialHook { return next }
func (w words) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { w(cmd.Args()); return next(ctx, cmd) }
}
func (w words) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// replay sends call over and over, and returns the server's decisions per second and µs of processor time per
// decision.
func replay(ctx context.Context, client *redis.Client, address string, call scriptCall, keys []string,
	duration time.Duration) (perSecond, cpu float64, err error) {
	random := rand.New(rand.NewPCG(3, 4))
	var batches [][]byte
	for range len(keys) / (scriptDepth * call.decisions) {
		var batch []byte
		for range scriptDepth {
			mine := make([]string, call.decisions)
			for i := range mine {
				mine[i] = keys[random.IntN(len(keys))]
			}
			batch = appendCommand(batch, call.words(mine))
		}
		batches = append(batches, batch)
	}
	before, err := serverCPU(ctx, client)
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	made := make([]int, scriptConns)
	err = parallel(scriptConns, func(g int) error {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		defer conn.Close()
		answers := bufio.NewReaderSize(conn, 64<<10)
		for i := g * len(batches) / scriptConns; time.Since(begin) < duration; i++ {
			if _, err := conn.Write(batches[i%len(batches)]); err != nil {
				return err
			}
			for range scriptDepth {
				if err := skipAnswer(answers); err != nil {
					return err
				}
			}
			made[g] += scriptDepth * call.decisions
		}
		return nil
	})
	elapsed := time.Since(begin)
	if err != nil {
		return 0, 0, err
	}
	after, err := serverCPU(ctx, client)
	total := 0
	for _, n := range made {
		total += n
	}
	return float64(total) / elapsed.Seconds(), float64((after - before).Microseconds()) / float64(total), err
}

// appendCommand appends words in Redis' protocol.
func appendCommand(buf []byte, words []any) []byte {
	buf = fmt.Appendf(buf, "*%d\r\n", len(words))
	for _, word := range words {
		text := fmt.Sprint(word)
		buf = fmt.Appendf(buf, "$%d\r\n%s\r\n", len(text), text)
	}
	return buf
}

// skipAnswer reads one answer, which must not be an error.
func skipAnswer(r *bufio.Reader) error {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return err
	}
	kind, rest := line[0], strings.TrimSpace(string(line[1:]))
	switch kind {
	case '-':
		return errors.New(rest)
	case '$', '*':
		n, err := strconv.Atoi(rest)
		if err != nil {
			return err
		}
		if kind == '$' && n >= 0 {
			_, err = r.Discard(n + 2)
			return err
		}
		for range n {
			if err := skipAnswer(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// serverCPU returns the processor time of the server's main thread.
func serverCPU(ctx context.Context, client *redis.Client) (time.Duration, error) {
	info, err := client.Info(ctx, "cpu").Result()
	var seconds float64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys_main_thread" || name == "used_cpu_user_main_thread" {
			used, _ := strconv.ParseFloat(value, 64)
			seconds += used
		}
	}
	if err == nil && seconds == 0 {
		err = errors.New("the server does not say what its main thread used: Redis 6.2 or later is needed")
	}
	return time.Duration(seconds * float64(time.Second)), err
}
