// Worker sends mails at an even rate of five a second, however many workers there are on
// this machine: they share a file, and each waits for its turn.
//
//	go run ./docs/examples/worker -state mails.db ada@example.com bob@example.com
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/filestore"
)

func main() {
	state := flag.String("state", "mails.db", "the file that the workers share")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	store, err := filestore.New(*state)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	if err := send(ctx, store, os.Stdout, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

// send sends a mail to each, one after the other, each in its turn.
func send(ctx context.Context, store limiter.Store, out io.Writer, to []string) error {
	// An operator can slow the workers down, or stop them for a while.
	limits := limiter.New(limiter.WithOverrides(store, limiter.Overrides{}))
	fiveASecond := limiter.Limit{Algorithm: limiter.LeakyBucket, Count: 5, Period: time.Second, Burst: 1000}
	for _, address := range to {
		// An error says that the worker is to stop, that the store is away, or that no turn comes in
		// time: where ctx has a deadline, or a thousand are waiting. What was taken for a mail that is
		// not sent has been given back.
		if _, err := limits.Wait(ctx, limiter.Key{Subject: "mails"}, fiveASecond, 1); err != nil {
			return err
		}
		fmt.Fprintln(out, "mail to", address)
	}
	return nil
}
