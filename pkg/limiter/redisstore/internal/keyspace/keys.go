// Package keyspace lists the keys that a store has in Redis, and changes them as operators ask for: limitctl's own limits, and
// those that other limiters keep. They share the scan, the reader and the exchanges with scripts; deleting, importing and
// adjusting have a script for each of the two.
package keyspace

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"time"

	"github.com/limitctl/limitctl/lua"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/layouts"
	"github.com/limitctl/limitctl/pkg/limiter/redisstore/internal/lanes"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// keys is what the limits of all layouts have in common: the servers that hold them.
type keys struct {
	*lanes.Sender
}

// Own is the limits of limitctl itself, in the servers of a sender.
type Own struct{ *keys }

// New returns the limits of limitctl in the servers of a sender.
func New(sender *lanes.Sender) *Own { return &Own{&keys{Sender: sender}} }

// Others is the limits that other limiters keep in the servers of a sender, as far as sources know them.
type Others struct {
	*keys
	sources layouts.Sources
}

// OtherLimiters returns the limits of other limiters in the same servers.
func (o *Own) OtherLimiters(sources layouts.Sources) *Others { return &Others{o.keys, sources} }

// isBeside reports whether a store key is of what limitctl keeps with its limits.
func (k *keys) isBeside(storeKey string) bool { return strings.HasPrefix(storeKey, string(k.Own)+"!") }

// tagsOf returns keys whose subjects lie in the slots of store keys.
func tagsOf(storeKeys []string) []store.Key {
	keys := make([]store.Key, len(storeKeys))
	for i, storeKey := range storeKeys {
		keys[i].Subject = hashTag(storeKey)
	}
	return keys
}

// hashTag returns the part of a store key that decides its slot in a Cluster: what is between
// the first brace and the one that ends it, if that is something, else all of it.
func hashTag(storeKey string) string {
	_, rest, opened := strings.Cut(storeKey, "{")
	tag, _, closed := strings.Cut(rest, "}")
	if opened && closed && tag != "" {
		return tag
	}
	return storeKey
}

const (
	// keysPerCall is how many keys one script call reads, deletes or writes: few enough
	// that others wait a millisecond or so for it.
	keysPerCall = 200
	// bytesPerExchange is how many bytes of records one exchange with a server carries, as
	// many as the export script sends. A record that is larger goes by itself.
	bytesPerExchange = lua.ExportBytes
	// smallBytes is how large values can be and still come back at any time.
	smallBytes = 64 << 10
	// keptAsIs is how many bytes of a value are sent to be compared. The sum of one so short costs the
	// server more than to read it.
	keptAsIs = 256
)

// perExchange returns how many of the first of n records go in one exchange, at least one.
func perExchange(n int, size func(i int) int) int {
	for i, bytes := 0, 0; i < n; i++ {
		if bytes += size(i); bytes > bytesPerExchange {
			return max(1, i)
		}
	}
	return n
}

// exchanges calls do with n records, as many at a time as one exchange can carry. Values that have changed come back in the
// answer, which is then about as large as the request. An exchange with large records runs while no other such one does.
// exchanges ends with the first error of do.
func (k *keys) exchanges(ctx context.Context, n int, size func(i int) int, do func(first, end int) error) error {
	for first := 0; first < n; {
		end := first + perExchange(n-first, func(i int) int { return size(first + i) })
		bytes := 0
		for i := first; i < end; i++ {
			bytes += size(i)
		}
		if err := k.exchange(ctx, bytes, func() error { return do(first, end) }); err != nil {
			return err
		}
		first = end
	}
	return nil
}

func (k *keys) exchange(ctx context.Context, bytes int, do func() error) error {
	if bytes > smallBytes {
		end, err := k.Alone(ctx)
		if err != nil {
			return err
		}
		defer end()
	}
	return do()
}

// keptValue tells the scripts which value the caller has kept: a short one itself, a long
// one by a checksum that they can compute, too.
func keptValue(value []byte) []byte {
	switch {
	case value == nil:
		return []byte{}
	case len(value) <= keptAsIs:
		return append([]byte("="), value...)
	}
	sum := sha1.Sum(value)
	return append([]byte("#"), hex.EncodeToString(sum[:])...)
}

// eachReported calls do for each key that a script reports. The reply has four elements for each, after its first element: the
// index of the key, what it holds if the script left it, and else the value that it held, and when that would have expired.
// eachReported returns false if the reply is not like that.
func eachReported(reply []any, keys int, do func(i int, holds string, was []byte, until time.Time)) bool {
	for n := 1; n < len(reply); n += 4 {
		i := int(lanes.Integer(reply[n])) - 1
		if i < 0 || i >= keys {
			return false
		}
		do(i, lanes.Text(reply[n+1]), []byte(lanes.Text(reply[n+2])), lanes.ExpiryOf(reply[n+3]))
	}
	return true
}

// expiresMS tells the scripts when a key expires: in ms since the epoch, or -1 for never.
func expiresMS(at time.Time) int64 {
	if at.IsZero() {
		return -1
	}
	return at.UnixMilli()
}

// importOutcome reads a byte of the reply of an import script.
func importOutcome(reply byte) (outcome admin.ImportOutcome, known bool) {
	switch reply {
	case 'i':
		return admin.Imported, true
	case 'a':
		return admin.AlreadyThere, true
	case 'l':
		return admin.Lapsed, true
	case 'u':
		return admin.InUse, true
	case 'f':
		return admin.Foreign, true
	case '-': // what became of the others says why
		return admin.NotKnown, true
	}
	return admin.NotKnown, false
}

// importFlag tells an import script whether to overwrite what is there.
func importFlag(replace bool) string {
	if replace {
		return "1"
	}
	return "0"
}
