package layouts

import (
	"strconv"
	"strings"
	"time"

	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// boulder is the rate limits of Let's Encrypt's boulder: buckets in the form of GCRA. A string
// holds the theoretical arrival time in ns since 1970, by the clock of the client.
type boulder struct{ single }

// boulderKept is how much longer than until the arrival time a new bucket is kept.
const boulderKept = 10 * time.Minute

// Info implements [Layout].
func (boulder) Info() Info {
	return Info{
		Name: "boulder", Called: "a bucket of boulder", Writer: "Let's Encrypt's boulder", Example: "3:12345", Type: "string",
		KeepsArrival: true, Needs: "the limit and the burst",
		Beyond: "A bucket is on one shard of the ring, which only the client knows: look at each of them.",
		Source: "github.com/letsencrypt/boulder 2d00c8e2",
	}
}

// boulderLimits are the names of the limits, in the order of their numbers in keys.
var boulderLimits = [...]struct {
	name string
	isID func(id string) bool
}{
	1: {"NewRegistrationsPerIPAddress", isAddress},
	2: {"NewRegistrationsPerIPv6Range", isRange},
	3: {"NewOrdersPerAccount", isAccount},
	4: {"FailedAuthorizationsPerDomainPerAccount", isOfAccount},
	5: {"CertificatesPerDomain", isIdentifier},
	6: {"CertificatesPerDomainPerAccount", isOfAccount},
	7: {"CertificatesPerFQDNSet", isSHA256},
	8: {"FailedAuthorizationsForPausingPerDomainPerAccount", isOfAccount},
	9: {"LimitOverrideRequestsPerIPAddress", isAddress},
}

func isAccount(id string) bool {
	_, err := strconv.ParseUint(id, 10, 64)
	return err == nil
}

// isOfAccount: an account, or an account and an identifier.
func isOfAccount(id string) bool {
	account, identifier, has := strings.Cut(id, ":")
	return isAccount(account) && (!has || isIdentifier(identifier))
}

// isIdentifier: a domain, an address or a range.
func isIdentifier(id string) bool {
	if isAddress(id) || isRange(id) {
		return true
	}
	for _, char := range id {
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-.", char) {
			return false
		}
	}
	return strings.Contains(id, ".")
}

// parseBucketKey reads a key "<number of the limit>:<id>", with an id that the limit can have.
func parseBucketKey(storeKey string) (key store.Key, ok bool) {
	number, id, has := strings.Cut(storeKey, ":")
	if !has || len(number) != 1 || number[0] < '1' || number[0] > '9' {
		return store.Key{}, false
	}
	limit := &boulderLimits[number[0]-'0']
	return store.Key{Subject: id, Name: "boulder/" + limit.name}, limit.isID(id)
}

// Match implements [Layout]. The numbers are not the same if somebody has changed the list.
func (l boulder) Match(storeKey string, asked bool) (store.Key, bool) {
	if key, ok := parseBucketKey(storeKey); ok || !asked {
		return key, ok
	}
	number, id, has := strings.Cut(storeKey, ":")
	return store.Key{Subject: id, Name: l.Info().Name + "/" + number}, has && isAccount(number) && id != ""
}

// Decode implements [Layout]. A new bucket is kept for ten minutes more than until its arrival
// time, and one that was spent from for the time that all of the burst takes. Neither is less
// than until the arrival time.
func (boulder) Decode(found *Found) (Reading, error) {
	value := &found.Values[0]
	entry, s, err := arrivalEntry(found, wholeInterval)
	if err != nil {
		return Reading{}, err
	}
	kept := lifetime{needed: entry.ResetAfter, passes: true, never: "letsencrypt/boulder#7720"}
	if entry.UsedKnown() {
		kept.longest = plus(time.Duration(s.tolerance), boulderKept)
	}
	_, usual := parseBucketKey(found.StoreKey)
	certain := usual && value.TTL >= 0 && value.TTL >= entry.ResetAfter-clocksDiffer && value.TTL <= longestLimit
	return kept.reading(found, entry, certain)
}

// SetRemaining implements [Setter].
func (boulder) SetRemaining(found *Found, remaining int64) ([]Write, error) {
	return arrivalLeaving(remaining, found, wholeInterval, boulderKept)
}
