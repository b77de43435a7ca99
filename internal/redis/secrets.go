package redisserver

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redact"
)

// Redact returns a text of the server, such as a field of INFO, without known secrets and with a readable length.
func (s *Servers) Redact(text string) string { return s.secrets.Answer(text) }

// LearnLogins learns the secrets of a credentials provider when the client sends them. Call it before the first use
// of the client.
func (s *Servers) LearnLogins() { learnLogins(s.client, s.secrets) }

// passwordOf returns the password in the options of client.
func passwordOf(client redis.UniversalClient) string {
	switch c := client.(type) {
	case *redis.Client:
		return c.Options().Password
	case *redis.ClusterClient:
		return c.Options().Password
	case *redis.Ring:
		return c.Options().Password
	}
	return ""
}

// learnLogins makes secrets learn what a provider gives client, when it is sent.
func learnLogins(client redis.UniversalClient, secrets *redact.Secrets) {
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		if o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil {
			c.AddHook(loginHook{secrets: secrets})
		}
	case *redis.ClusterClient:
		o := c.Options()
		if o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil {
			c.OnNewNode(func(node *redis.Client) { node.AddHook(loginHook{secrets: secrets}) })
		}
	}
}

// loginHook is a [redis.Hook] that learns passwords from logins.
type loginHook struct {
	PassHook
	secrets *redact.Secrets
}

// ProcessHook implements [redis.Hook].
func (h loginHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.learn(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (h loginHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			h.learn(cmd)
		}
		return next(ctx, cmds)
	}
}

// learn records the password of AUTH [user] password and of HELLO version AUTH user password.
func (h loginHook) learn(cmd redis.Cmder) {
	name := cmd.Name()
	if name != "hello" && name != "auth" {
		return // do not read its arguments: a take would then count as sent
	}
	words := cmd.Args()
	at := len(words) - 1
	if name == "hello" {
		at = 4
	}
	if at < len(words) {
		if password, is := words[at].(string); is {
			h.secrets.Learn(password)
		}
	}
}

// clean returns an answer of the server without secrets and useless parts.
func (s *Servers) clean(err error) error {
	var answer redis.Error
	if !errors.As(err, &answer) || s.secrets.Answer(err.Error()) == err.Error() && s.secrets.Answer(answer.Error()) == answer.Error() {
		return s.secrets.Error(err)
	}
	return cleanAnswer(s.secrets.Answer(err.Error()))
}

// cleanAnswer is a [redis.Error] with a shortened text.
type cleanAnswer string

func (a cleanAnswer) Error() string { return string(a) }

// RedisError implements [redis.Error].
func (cleanAnswer) RedisError() {}
