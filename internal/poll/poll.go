// Package poll looks at something again and again, and applies it when it has changed.
//
// Of files it compares contents. Notices of the file system would come sooner, but not from every file system, not for
// the target of a symbolic link, and not for a directory that is created anew. The content is the same wherever a file
// is, and reading it costs little.
package poll

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/limitctl/limitctl/internal/panics"
	"github.com/limitctl/limitctl/internal/sys"
)

// Settle is the time for which files that people write must stay the same before they are used: half a file can be
// valid.
const Settle = 100 * time.Millisecond

// Source is something that can change. Look is for one goroutine, and Stale for any.
type Source[T any] struct {
	// Read returns the content, and a text that is another one for another content, such as its [Sum]. The content of
	// one that was seen does not count.
	Read func(ctx context.Context) (content T, sum string, err error)
	// Apply uses a content. Its error says why the one before stays in use.
	Apply func(content T) error
	// Settle is the time for which a changed content must stay the same; 0 for none.
	Settle time.Duration
	// Seen is the sum of the content that was applied last.
	Seen string

	failed atomic.Pointer[string] // why the last content is not in use; nil if it is
}

// Look reads once, and applies the content if it has changed, or if again is set. It returns each cause of a failure
// once. A panic is a failure, and the end of ctx is none.
func (s *Source[T]) Look(ctx context.Context, again bool) (applied bool, err error) {
	var content T
	var sum string
	read := func() (err error) {
		content, sum, err = s.Read(ctx)
		return err
	}
	err = panics.Call(read)
	if err == nil && sum != s.Seen && s.Settle > 0 {
		before := sum
		if sys.Sleep(ctx, s.Settle) != nil {
			return false, nil
		}
		if err = panics.Call(read); err == nil && sum != before {
			return false, nil // until the next look
		}
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return false, err
	case err != nil:
		s.Seen = ""
	case sum == s.Seen && !again:
		return false, nil
	default:
		s.Seen = sum
		err = panics.Call(func() error { return s.Apply(content) })
	}
	if err == nil {
		s.failed.Store(nil)
		return true, nil
	}
	text := err.Error()
	if text == s.Stale() && !again {
		return false, nil
	}
	s.failed.Store(&text)
	return false, err
}

// Stale returns why the last content is not in use; empty if it is.
func (s *Source[T]) Stale() string {
	if text := s.failed.Load(); text != nil {
		return *text
	}
	return ""
}

// Files returns a Source of files that are used together.
func Files(read func(path string) ([]byte, error), apply func(texts [][]byte) error,
	paths ...string) *Source[[][]byte] {
	return &Source[[][]byte]{Apply: apply, Read: func(context.Context) (texts [][]byte, sum string, err error) {
		for _, path := range paths {
			text, err := read(path)
			if err != nil {
				return nil, "", err
			}
			texts = append(texts, text)
		}
		return texts, Sum(texts...), nil
	}}
}

// Sum identifies texts.
func Sum(texts ...[]byte) string {
	sum := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(sum, "%d ", len(text))
		sum.Write(text)
	}
	return string(sum.Sum(nil))
}
