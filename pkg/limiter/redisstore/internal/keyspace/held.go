package keyspace

import (
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/pkg/limiter/layouts"
)

// heldValue is a value of another limiter as it was read.
type heldValue struct {
	layouts.Value
	// at is what the server's clock showed just before the value was read.
	at      time.Time
	expires time.Time
	dump    []byte // of what is not a string
	bytes   int64
	// size is the memory that the value takes, 0 if the user may not know, and reads about what
	// its members take that are read.
	size, reads int64
	// tooLarge says, if it is not empty, what of the value is more than is read.
	tooLarge string
	// lost: the master that has it could not be reached.
	lost bool
	// read: it is known what is there.
	read bool
}

const (
	// firstText is how much of a string is read at first. It is all of nearly every one.
	firstText = 4096
	// mostRead is how many bytes of memory the members take that are read of a value.
	mostRead = 4 << 20
	// mostKept is how many bytes of memory a value takes that a backup can hold. The largest
	// answer that the store lets through is some more.
	mostKept = 16 << 20
)

// gone says that there is nothing under the key.
func (h *heldValue) gone() {
	*h = heldValue{Value: layouts.Value{StoreKey: h.StoreKey, Type: layouts.NoValue}, at: h.at, read: true}
}

// lifetime is the command that tells until when a key is kept: one that says an instant where
// that can be had and matters, else for how long.
type lifetime struct {
	cmd   *redis.IntCmd
	until bool
}

// keep notes until when the value is kept. It reports whether there is one.
func (h *heldValue) keep(l lifetime) (there bool) {
	switch value := l.cmd.Val(); { // in ms, as other limiters set expiries that no Duration can have
	case value == -2:
		h.gone()
		return false
	case value < 0:
		h.TTL, h.expires = -1, time.Time{}
	case l.until:
		h.expires = time.UnixMilli(value)
		h.TTL = max(0, h.expires.Sub(h.at)) // which is the longest there is if it is longer
	default:
		h.TTL = time.Duration(min(value, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
		if h.expires = h.at.Add(h.TTL); h.TTL.Milliseconds() < value {
			h.expires = time.UnixMilli(h.at.UnixMilli() + value)
		}
	}
	return true
}

// kept is the value as a backup holds it.
func (h *heldValue) kept() []byte {
	if h.Type == layouts.StringValue {
		return dumpText(h.Text)
	}
	return h.dump
}

// isMore says that a value has so many of what, which is more than is read or kept.
func (h *heldValue) isMore(than int64, has int64, what string) {
	h.tooLarge = fmt.Sprintf("a %s of %d %s, and limitctl takes at most %d", h.Type, has, what, than)
}
