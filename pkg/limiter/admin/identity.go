package admin

import (
	"context"
	"crypto/rand"
	"encoding/hex"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Identity is the random id of a store under its prefix, separate from its limits. It identifies the store,
// whatever its address. A copy of a server's data has the id of the original.
//
// All stores of this module have one. [IdentityOf] finds it.
type Identity interface {
	// StoreID returns the id, or "" if the store has none yet. It writes nothing.
	StoreID(ctx context.Context) (string, error)
	// EnsureStoreID returns the id, and creates it if the store has none. Concurrent callers get the same id.
	EnsureStoreID(ctx context.Context) (string, error)
}

// IdentityOf returns the identity of backend, or of the store that it wraps; see
// [DenialTableOf].
func IdentityOf(backend store.Store) (identity Identity, has bool) {
	return store.As[Identity](backend)
}

// storeIDBytes is the number of random bytes in an id.
const storeIDBytes = 16

// NewStoreID is for stores. It returns a new id: 32 hexadecimal digits.
func NewStoreID() string {
	var id [storeIDBytes]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// IsStoreID is for stores. It reports whether text has the form of a result of [NewStoreID].
func IsStoreID(text string) bool {
	if len(text) != 2*storeIDBytes {
		return false
	}
	_, err := hex.DecodeString(text)
	return err == nil
}
