// Worker sends mails at an even rate of five a second, however many workers run on this machine: they share a file,
// and each waits for its turn.
//
//	go -C docs/examples run ./worker -state mails.db ada@example.com bob@example.com
package main

import (
	"context"
	"errors"
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
	err = send(ctx, store, os.Stdout, flag.Args())
	if err := errors.Join(err, store.Close()); err != nil {
		log.Fatal(err)
	}
}

// mails is a queue for a thousand turns. It keeps the order of all workers.
var mails = limiter.Per("mails", 5, time.Second).Leaky(1000)

// send sends a mail to each address, one after the other, each in its turn.
func send(ctx context.Context, store limiter.Store, out io.Writer, to []string) error {
	// An operator can slow the workers down, or stop them for a while.
	limits, err := limiter.New(store, limiter.Overrides{})
	if err != nil {
		return err
	}
	defer limits.Close() // the store stays open
	for _, address := range to {
		// An error says that the worker has to stop, that the store is away, or that the turn would come too late:
		// after ctx's deadline, or because a thousand are waiting. The units of a mail that is not sent have been
		// given back.
		if err := limits.Wait(ctx, mails.For("all")); err != nil {
			return err
		}
		fmt.Fprintln(out, "mail to", address)
	}
	return nil
}
