package admin

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Identity is the random id that a store has under its prefix, apart from its limits. By it
// a store is known again, whichever address it was reached by. A copy of a server's data has
// the id of the original.
//
// All stores of this module have one. [IdentityOf] finds it.
type Identity interface {
	// StoreID returns the id. It is empty if the store has none yet. It writes nothing.
	StoreID(ctx context.Context) (string, error)
	// EnsureStoreID returns the id, and gives the store one first if it has none. Of
	// several callers at once all get the same.
	EnsureStoreID(ctx context.Context) (string, error)
}

// IdentityOf returns the identity of backend, or of the store that it wraps; see
// [DenialTableOf].
func IdentityOf(backend store.Store) (identity Identity, has bool) {
	return store.As[Identity](backend)
}

// storeIDBytes is how many random bytes an id has.
const storeIDBytes = 16

// NewStoreID is for stores. It returns a new id: 32 hexadecimal digits.
func NewStoreID() string {
	var id [storeIDBytes]byte
	rand.Read(id[:]) // which never fails
	return hex.EncodeToString(id[:])
}

// IsStoreID is for stores. It reports whether text can be what [NewStoreID] returned.
func IsStoreID(text string) bool {
	if len(text) != 2*storeIDBytes {
		return false
	}
	_, err := hex.DecodeString(text)
	return err == nil
}
