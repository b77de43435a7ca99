package redisserver

import (
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/panics"
)

// garbled are the beginnings of go-redis' errors about answers that are well-formed but of a wrong type.
var garbled = []string{"redis: can't parse", "redis: got ", "redis: invalid ", "redis: unexpected ", "redis: RESP3 map key",
	"redis: the length of the array", "got ", "strconv."}

// answerError says what is wrong with an answer.
type answerError struct{ text string }

func (e *answerError) Error() string { return e.text }

// ErrAnswer is the error about an answer that no server gives to the command. A proxy might give it.
var ErrAnswer error = &answerError{"its answer is not one that Redis gives to this"}

// WrongAnswer returns what is wrong with an answer, if err is about one that no server gives, or about a panic
// because of it. It returns nil for any other error.
func WrongAnswer(err error) error {
	var answer *answerError
	var panicked *panics.Error
	switch {
	case errors.As(err, &answer):
		return answer
	case errors.As(err, &panicked):
		return panicked
	case errors.Is(err, redis.Nil):
		return ErrAnswer
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if isNetError(err) {
			return nil // it is about the connection
		}
		text := err.Error()
		if slices.ContainsFunc(garbled, func(beginning string) bool { return strings.HasPrefix(text, beginning) }) {
			return ErrAnswer
		}
	}
	return nil
}

// isNetError reports whether err itself, not one that it wraps, is a network error.
func isNetError(err any) bool {
	_, is := err.(net.Error)
	return is
}
