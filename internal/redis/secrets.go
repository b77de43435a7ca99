package redisserver

import (
	"errors"

	"github.com/redis/go-redis/v9"
)

// Redact returns a text of the server, such as a field of INFO, without known secrets and with a readable length.
func (s *Servers) Redact(text string) string { return s.secrets.Answer(text) }

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
