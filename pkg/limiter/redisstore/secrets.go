package redisstore

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redact"
)

// WithSecrets names texts that no error may hold, besides the password that the client
// logs in with, which the store knows: a server can repeat what it was ever sent.
func WithSecrets(secrets ...string) Option { return func(s *Store) { s.secrets.Add(secrets...) } }

// secretsOf returns what client logs in with. What a provider gives it is learnt when it
// is sent, by a client that is new.
func secretsOf(client redis.UniversalClient) *redact.Secrets {
	secrets := redact.New()
	switch c := client.(type) {
	case *redis.Client:
		o := c.Options()
		secrets.Add(o.Password)
		if o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil {
			c.AddHook(loginHook{secrets})
		}
	case *redis.ClusterClient:
		o := c.Options()
		secrets.Add(o.Password)
		if o.CredentialsProvider != nil || o.CredentialsProviderContext != nil || o.StreamingCredentialsProvider != nil {
			c.OnNewNode(func(node *redis.Client) { node.AddHook(loginHook{secrets}) })
		}
	case *redis.Ring:
		secrets.Add(c.Options().Password)
	}
	return secrets
}

// loginHook is a [redis.Hook] that learns what a client logs in with.
type loginHook struct{ secrets *redact.Secrets }

// DialHook implements [redis.Hook].
func (loginHook) DialHook(next redis.DialHook) redis.DialHook { return next }

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

// learn takes down the password of AUTH [user] password and of
// HELLO version AUTH user password.
func (h loginHook) learn(cmd redis.Cmder) {
	words := cmd.Args()
	at := len(words) - 1
	if cmd.Name() == "hello" {
		at = 4
	} else if cmd.Name() != "auth" {
		return
	}
	if at < len(words) {
		if password, is := words[at].(string); is {
			h.secrets.Add(password)
		}
	}
}

// clean returns an answer of the server's without the secrets and without what nobody
// needs of it.
func (s *Store) clean(err error) error {
	var answer redis.Error
	if !errors.As(err, &answer) || s.secrets.Answer(err.Error()) == err.Error() && s.secrets.Answer(answer.Error()) == answer.Error() {
		return s.secrets.Error(err)
	}
	return cleanAnswer(s.secrets.Answer(err.Error()))
}

// cleanAnswer is a [redis.Error] of which something was taken out.
type cleanAnswer string

func (a cleanAnswer) Error() string { return string(a) }

// RedisError implements [redis.Error].
func (cleanAnswer) RedisError() {}
