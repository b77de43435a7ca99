// Llm-gateway limits what teams spend on a language model: a hundred thousand tokens a
// minute for each team, and a million a minute for all. How many tokens a call takes is
// known only when it has been answered, so an estimate is taken first and settled at the
// real cost afterwards.
//
// The limits are in limitctl.yaml beside this file, which the command reads, too:
//
//	limitctl config validate docs/examples/llm-gateway/limitctl.yaml
//	go run ./docs/examples/llm-gateway -redis localhost:6379 -team red -prompt "why is the sky blue?"
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter"
	"github.com/limitctl/limitctl/pkg/limiter/policy"
	"github.com/limitctl/limitctl/pkg/limiter/policyfile"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore"
)

func main() {
	address := flag.String("redis", "localhost:6379", "where the Redis is")
	team := flag.String("team", "red", "who pays")
	prompt := flag.String("prompt", "why is the sky blue?", "what is asked")
	path := flag.String("limits", "docs/examples/llm-gateway/limitctl.yaml", "the file with the limits")
	flag.Parse()
	file, err := policyfile.Load(*path)
	if err != nil {
		log.Fatal(err)
	}
	tokens, err := file.Policy("tokens")
	if err != nil {
		log.Fatal(err)
	}
	store, err := redisstore.Open(redis.Options{Addr: *address}, redisstore.WithPrefix(file.Prefix))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	// With what the file says of an outage, and what operators say meanwhile.
	stores := file.Wrap(store, policyfile.Hooks{OnOverrides: func(err error) { log.Print(err) }})
	g := &gateway{tokens: tokens, limits: limiter.New(stores[tokens.Name]), model: parrot}
	answer, err := g.ask(context.Background(), *team, *prompt)
	if answer != "" { // it has been paid for, even if settling failed
		fmt.Println(answer)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// mostAnswered is how many tokens an answer has at most, by what the model is asked for.
const mostAnswered = 4000

// errBusy says that a team has to wait.
type errBusy struct{ retryAfter time.Duration }

func (e errBusy) Error() string { return fmt.Sprintf("too many tokens; try again in %s", e.retryAfter) }

// gateway asks a model for those who have tokens left.
type gateway struct {
	// tokens are the limits of a call, which it has to fit together.
	tokens *policy.Policy
	limits *limiter.Limiter
	// model answers a prompt and says how many tokens that took.
	model func(ctx context.Context, prompt string) (answer string, took int64, err error)
}

// ask asks the model for a team.
func (g *gateway) ask(ctx context.Context, team, prompt string) (answer string, err error) {
	reserved := int64(len(prompt)/4+1) + mostAnswered
	reqs, err := g.tokens.Requests(policy.Attributes{"model": "sky-1", "team": team}, reserved)
	if err != nil {
		return "", err
	}
	token := rand.Text() // of this call
	for i := range reqs {
		reqs[i].Token = token
	}
	decisions, err := g.take(ctx, reqs)
	if err != nil {
		return "", err
	}
	if sum := limiter.Summarize(decisions); !sum.Allowed {
		return "", errBusy{sum.RetryAfter}
	}
	answer, took, err := g.model(ctx, prompt)
	// Whoever decided it: an operator may have exempted the team from one limit only, and the store may
	// have charged a call whose answer was lost.
	for i := range reqs {
		reqs[i].Cost = took // 0 if the model did not answer
	}
	// Also for a caller who has left: the tokens belong to the team.
	settleErr := g.settle(context.WithoutCancel(ctx), reqs)
	if limiter.IsAway(settleErr) && limiter.Summarize(decisions).DecidedBy != limiter.DecidedByStore {
		settleErr = nil // the store was away before; what it may have charged fades
	}
	return answer, errors.Join(err, settleErr)
}

// take takes the estimate. If nobody knows whether it was taken, it asks again: with the
// same token nothing is charged twice.
func (g *gateway) take(ctx context.Context, reqs []limiter.Request) ([]limiter.Decision, error) {
	decisions, err := g.limits.TakeAll(ctx, reqs...)
	if errors.Is(err, limiter.ErrOutcomeUnknown) {
		decisions, err = g.limits.TakeAll(ctx, reqs...)
	}
	return decisions, err
}

// settle brings what was taken to the real costs. A token that the store has forgotten, as
// after a restart without persistence, leaves nothing to settle.
func (g *gateway) settle(ctx context.Context, reqs []limiter.Request) error {
	_, err := g.limits.SettleAll(ctx, reqs...)
	if errors.Is(err, limiter.ErrOutcomeUnknown) {
		_, err = g.limits.SettleAll(ctx, reqs...)
	}
	if errors.Is(err, limiter.ErrUnknownToken) {
		return nil
	}
	return err
}

// parrot stands for a model.
func parrot(_ context.Context, prompt string) (string, int64, error) {
	return "You asked: " + prompt, int64(2*len(prompt)/4 + 4), nil
}
