package doctor

import (
	"context"
	"slices"
	"strings"

	"github.com/limitctl/limitctl/cmd/internal/shell"
	"github.com/limitctl/limitctl/internal/redisserver"
)

// publishing looks what the user may do with published configurations, on the server that has them. It adds nothing if
// nothing was published there.
func (e *examination) publishing(ctx context.Context, s *server, of *rightFacts) error {
	head := s.client.GetRange(ctx, e.Prefix+"!{config}:head", 0, 0)
	if err := head.Err(); err != nil && !redisserver.IsReply(err) {
		return err
	} else if err == nil && head.Val() == "" || err != nil && !strings.HasPrefix(err.Error(), "NOPERM") {
		return nil // such as MOVED
	}
	f := publishingFacts{user: of.user, prefix: of.prefix}
	look := func(rights []redisserver.Right) ([]verdict, error) {
		if of.tried {
			return tryOut(ctx, s.client, rights)
		}
		return dryRun(ctx, s.client, of.asked, rights)
	}
	f.follow, f.publish = redisserver.PublishingRights(e.Prefix)
	var err error
	if f.follows, err = look(f.follow); err == nil {
		f.publishes, err = look(f.publish)
	}
	if err != nil {
		return err
	}
	e.add(s, f.judge())
	return nil
}

// publishingFacts are a server's answers about the rights of a user with published configurations.
type publishingFacts struct {
	user, prefix       string
	follow, publish    []redisserver.Right
	follows, publishes []verdict // by right
}

// lacks returns the words of an ACL that a user lacks; keys are those for which it has the command only.
func lacks(rights []redisserver.Right, verdicts []verdict, keys []string) (words, losses []string, fails bool) {
	for i, right := range rights {
		if verdicts[i] == allowed || verdicts[i] == unknown {
			continue
		}
		word := []string{"+" + right.Command}
		if verdicts[i] == keyDenied {
			word = keys
		}
		for _, w := range word {
			if !slices.Contains(words, w) {
				words = append(words, w)
			}
		}
		if fails = fails || right.Else == ""; right.Else != "" {
			losses = append(losses, right.Else)
		}
	}
	isKeys := func(word string) bool { return strings.Contains(word, "~") }
	slices.SortStableFunc(words, func(a, b string) int { // keys first, as in other rules
		switch {
		case isKeys(a) == isKeys(b):
			return 0
		case isKeys(a):
			return -1
		}
		return 1
	})
	return words, losses, fails
}

func (f *publishingFacts) judge() Finding {
	followKeys, publishKeys := redisserver.PublishingKeys(f.prefix)
	toFollow, losses, cannotFollow := lacks(f.follow, f.follows, followKeys)
	toPublish, _, cannotPublish := lacks(f.publish, f.publishes, publishKeys)
	writes := false // what only a publisher does
	for i, right := range f.publish {
		writes = writes || right.Writes && f.publishes[i] == allowed
	}
	missing := map[string][]string{}
	if len(toFollow) > 0 {
		missing["follow"] = toFollow
	}
	if len(toPublish) > 0 {
		missing["publish"] = toPublish
	}
	found := Finding{Check: "publishing", Status: OK, Data: map[string]any{"user": f.user, "follows": !cannotFollow,
		"publishes": !cannotPublish, "missing": missing}}
	name := "user " + f.user
	switch {
	case !cannotFollow && !cannotPublish:
		found.Summary = name + " can follow and publish configurations"
	case !cannotFollow:
		found.Summary = name + " can follow published configurations, as a service; to publish it lacks " + strings.Join(toPublish, " ")
	case !cannotPublish:
		found.Summary = name + " can publish configurations; to follow them it lacks " + strings.Join(toFollow, " ")
	default:
		found.Summary = name + " can neither follow nor publish configurations; to follow them it lacks " + strings.Join(toFollow, " ")
	}
	switch {
	case cannotPublish && writes:
		found.Status = Warn
		found.Summary += ", though it has some of the rights"
		found.Advice = "for a publisher: " + shell.SetUser(f.user, toPublish...)
	case !cannotFollow && len(losses) > 0:
		found.Status = Warn
		found.Summary += "; " + strings.Join(losses, "; ")
		found.Advice = "for a service: " + shell.SetUser(f.user, toFollow...)
	case cannotFollow && cannotPublish:
		found.Advice = "if it is for a service with --config store:, " + shell.SetUser(f.user, toFollow...)
	}
	return found
}
