// Llm-gateway limits what teams spend on a language model: a hundred thousand tokens a
// minute for each team, and a million a minute for all. How many tokens a call takes is
// known only when it has been answered, so an estimate is taken first and settled at the
// real cost afterwards.
//
// The limits are in limitctl.yaml beside this file, which the command reads, too. A change of
// it applies within about a second:
//
//	limitctl config validate docs/examples/llm-gateway/limitctl.yaml
//	go run ./docs/examples/llm-gateway -redis localhost:6379 -team red -prompt "why is the sky blue?"
package main

import (
	"context"
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
	if err := run(*address, *path, *team, *prompt); err != nil {
		log.Fatal(err)
	}
}

func run(address, path, team, prompt string) error {
	file, err := policyfile.Load(path)
	if err != nil {
		return err
	}
	store, err := redisstore.Open(redis.Options{Addr: address}, redisstore.WithPrefix(file.Prefix))
	if err != nil {
		return err
	}
	defer store.Close()
	// It does what the file says of an outage, and applies what operators say meanwhile.
	policies, err := policyfile.NewRuntime(file, store, limiter.Observer{OnOverrides: func(err error) { log.Print("overrides: ", err) }})
	if err != nil {
		return err
	}
	defer policies.Close()
	go policies.Watch(context.Background(), time.Second, func(err error) { log.Print("limits reloaded: ", err) })
	g := &gateway{policies: policies, model: parrot}
	answer, err := g.ask(context.Background(), team, prompt)
	if answer != "" { // it has been paid for, even if settling failed
		fmt.Println(answer)
	}
	return err
}

// mostAnswered is how many tokens an answer has at most, by what the model is asked for.
const mostAnswered = 4000

// gateway asks a model for those who have tokens left.
type gateway struct {
	policies *policyfile.Runtime
	// model answers a prompt and says how many tokens that took.
	model func(ctx context.Context, prompt string) (answer string, took int64, err error)
}

// ask asks the model for a team. A team that has to wait gets a *limiter.DeniedError, which says how long.
func (g *gateway) ask(ctx context.Context, team, prompt string) (string, error) {
	estimate := int64(len(prompt)/4+1) + mostAnswered
	call, err := g.policies.Call("tokens", policy.Attributes{"model": "sky-1", "team": team}, estimate)
	if err != nil {
		return "", err
	}
	r, err := call.Limits.Reserve(ctx, call.Requests...)
	if err != nil {
		return "", errors.Join(err, r.Cancel(ctx)) // it may have been taken, if nobody knows the outcome
	}
	answer, took, err := g.model(ctx, prompt) // it took 0 if the model did not answer
	costs, wrong := call.Policy.UnitsOf(took)
	return answer, errors.Join(err, wrong, r.Settle(ctx, costs...)) // also for a caller who has left
}

// parrot stands for a model.
func parrot(_ context.Context, prompt string) (string, int64, error) {
	return "You asked: " + prompt, int64(2*len(prompt)/4 + 4), nil
}
