// Command misuse is wrong in each line that ends with a comment: the comment is a part of what the compiler says.
package main

import (
	"context"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/memorystore"
)

// option is an option of somebody else.
type option struct{}

func main() {
	ctx := context.Background()
	login := limiter.Per("login", 5, time.Minute)
	limits, err := limiter.New(memorystore.New(), option{}) // does not implement limiter.Option
	if err != nil {
		return
	}
	_ = limiter.Per(5, time.Minute)                  // not enough arguments
	_ = limits.Take(ctx, login.For("u")).Allowed()   // multiple-value
	_, _ = limits.Take(ctx, login)                   // cannot use login
	_, _ = limits.Take(ctx, "u")                     // cannot use "u"
	_, _ = limits.Take(login.For("u"))               // cannot use login.For
	if d, _ := limits.Take(ctx, login.For("u")); d { // non-boolean condition
		return
	}
	if limits.Wait(ctx, login.For("u")) { // non-boolean condition
		return
	}
	_ = login.For("u").N(1.5)                                              // truncated
	_ = limiter.FailLocal(time.Second)                                     // cannot use time.Second
	_ = limiter.Decisions{count: 1}                                        // cannot refer to unexported field count
	var reserved limiter.Reservation = limits.Reserve(ctx, login.For("u")) // multiple-value
	_ = reserved
	_ = struct{ limiter.Store }{}.Close(1) // too many arguments
}
