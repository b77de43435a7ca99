// Command record asks an envoyproxy/ratelimit the requests of a corpus, and writes its answers into it:
//
//	go run ./record -service localhost:8081 -redis localhost:6379 ../../cmd/internal/serve/envoy/testdata/peer/corpus.txt
//
// The service has the files beside the corpus. Its Redis is emptied before each case, so it must be its own. Windows of a
// day should not end meanwhile.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func main() {
	log.SetFlags(0)
	service := flag.String("service", "localhost:8081", "the gRPC `address` of envoyproxy/ratelimit")
	redis := flag.String("redis", "localhost:6379", "the `address` of its Redis, which is emptied")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("name the corpus")
	}
	if err := record(*service, *redis, flag.Arg(0)); err != nil {
		log.Fatal(err)
	}
}

func record(service, redis, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	conn, err := grpc.NewClient(service, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	client := rlsv3.NewRateLimitServiceClient(conn)
	var out []string
	for line := range strings.SplitSeq(strings.TrimSuffix(string(text), "\n"), "\n") {
		keyword, _, _ := strings.Cut(line, " ")
		if keyword == "answer" || keyword == "limitctl" {
			continue
		}
		out = append(out, line)
		switch keyword {
		case "case":
			if err := empty(redis); err != nil {
				return err
			}
		case "ask":
			answer, err := ask(client, line)
			if err != nil {
				return fmt.Errorf("%s: %w", line, err)
			}
			out = append(out, "answer "+answer)
		}
	}
	return os.WriteFile(path, []byte(strings.Join(out, "\n")+"\n"), 0o644)
}

// empty empties the Redis.
func empty(address string) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Write([]byte("FLUSHALL\r\n")); err != nil {
		return err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && line != "+OK\r\n" {
		err = fmt.Errorf("FLUSHALL was answered with %q", line)
	}
	return err
}

// ask sends the request of a line: ask DOMAIN HITS DESCRIPTOR….
func ask(client rlsv3.RateLimitServiceClient, line string) (string, error) {
	words := strings.Fields(line)
	hits, err := strconv.ParseUint(words[2], 10, 32)
	if err != nil {
		return "", err
	}
	request := &rlsv3.RateLimitRequest{Domain: words[1], HitsAddend: uint32(hits)}
	for _, word := range words[3:] {
		d := &common.RateLimitDescriptor{}
		for entry := range strings.SplitSeq(word, ",") {
			key, value, _ := strings.Cut(entry, "=")
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		request.Descriptors = append(request.Descriptors, d)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	answer, err := client.ShouldRateLimit(ctx, request)
	if err != nil {
		return "", err
	}
	text := answer.OverallCode.String()
	for _, s := range answer.Statuses {
		limit, left := "-", strconv.FormatUint(uint64(s.LimitRemaining), 10)
		if l := s.CurrentLimit; l != nil {
			limit = fmt.Sprintf("%d/%s", l.RequestsPerUnit, l.Unit)
		}
		if s.LimitRemaining == math.MaxUint32 {
			left = "max"
		}
		text += fmt.Sprintf(" %s:%s:%s", s.Code, limit, left)
	}
	return text, nil
}
