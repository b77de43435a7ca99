// Llm-gateway limits what teams spend on a language model: a hundred thousand tokens a minute for each team, and a
// million a minute for all. Free callers leave 30 % of that to paid ones, and nobody who pays stands in a queue behind
// them. The tokens of a call are known only after its answer, so it takes an estimate first and settles with the real
// cost afterwards.
//
// The limits are in limitctl.yaml beside this file, which the command reads, too. A change takes effect within
// about a second:
//
//	limitctl config validate docs/examples/llm-gateway/limitctl.yaml
//	go -C docs/examples run ./llm-gateway -redis localhost:6379 -team red -plan paid -prompt "why is the sky blue?"
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
	plan := flag.String("plan", "free", "what the team pays for: paid, free or batch")
	prompt := flag.String("prompt", "why is the sky blue?", "what is asked")
	path := flag.String("limits", "llm-gateway/limitctl.yaml", "the file with the limits")
	flag.Parse()
	if err := run(*address, *path, *team, *plan, *prompt); err != nil {
		log.Fatal(err)
	}
}

func run(address, path, team, plan, prompt string) error {
	file, err := policyfile.Load(path)
	if err != nil {
		return err
	}
	store, err := redisstore.Open(redis.UniversalOptions{Addrs: []string{address}}, redisstore.WithPrefix(file.Prefix))
	if err != nil {
		return err
	}
	defer store.Close()
	// It applies the file's failure policy and the overrides of operators.
	policies, err := policyfile.NewRuntime(
		file, store, limiter.Observer{OnOverrides: func(err error) { log.Print("overrides: ", err) }})
	if err != nil {
		return err
	}
	defer policies.Close()
	go policies.Watch(context.Background(), time.Second, func(err error) { log.Print("limits reloaded: ", err) })
	g := &gateway{policies: policies, model: parrot}
	answer, err := g.ask(context.Background(), team, plan, prompt)
	if answer != "" { // it is paid for, even if settling failed
		fmt.Println(answer)
	}
	return err
}

// mostAnswered is the most tokens of an answer, which the request to the model sets.
const mostAnswered = 4000

// gateway calls a model for teams that have tokens left.
type gateway struct {
	policies *policyfile.Runtime
	// model answers a prompt and returns the number of tokens.
	model func(ctx context.Context, prompt string) (answer string, took int64, err error)
}

// ask calls the model for a team on a plan. The plan comes from the team's contract and not from the request, or
// everybody would be a paid caller. A team that has to wait gets a *limiter.DeniedError, which says how long.
func (g *gateway) ask(ctx context.Context, team, plan, prompt string) (string, error) {
	estimate := int64(len(prompt)/4+1) + mostAnswered
	call, err := g.policies.Call("tokens", policy.Attributes{"model": "sky-1", "team": team, "plan": plan}, estimate)
	if err != nil {
		return "", err
	}
	r, err := call.Limits.Reserve(ctx, call.Requests...)
	if err != nil {
		return "", errors.Join(err, r.Cancel(ctx)) // it may have been charged, if the outcome is unknown
	}
	answer, took, err := g.model(ctx, prompt) // took is 0 if the model did not answer
	costs, wrong := call.Policy.UnitsOf(took)
	return answer, errors.Join(err, wrong, r.Settle(ctx, costs...)) // also for a caller who has left
}

// parrot replaces a model.
func parrot(_ context.Context, prompt string) (string, int64, error) {
	return "You asked: " + prompt, int64(2*len(prompt)/4 + 4), nil
}
