package source

import (
	"cmp"
	"strings"

	redisserver "github.com/limitctl/limitctl/internal/redis"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// ID names a row.
type ID struct {
	store.Key
	// StoreKey is the one that a limit of another limiter is called by: several of its limits can
	// have the same Key. It is empty for limitctl's own limits.
	StoreKey string
}

// IDOf returns the ID of an entry.
func IDOf(e *admin.Entry) ID {
	if e.Layout == "" {
		return ID{Key: e.Key}
	}
	return ID{e.Key, e.StoreKey}
}

// OwnID is the ID of a limit of limitctl's own.
func OwnID(key store.Key) ID { return ID{Key: key} }

// CompareIDs orders rows by subject, limit and store key.
func CompareIDs(a, b ID) int {
	if c := strings.Compare(a.Subject, b.Subject); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.StoreKey, b.StoreKey))
}

// tag is what decides which node of a Cluster has the keys of a row.
func (id ID) tag() string {
	if id.StoreKey == "" {
		return id.Subject
	}
	return redisserver.HashTag(id.StoreKey)
}

// QueryOf returns a query of exactly these rows. subjects are those of the whole selection, so
// that layouts are asked for these keys as they are for all.
func QueryOf(subjects store.Pattern, ids []ID) admin.Query {
	query := admin.Query{Subjects: subjects, Keys: make([]store.Key, len(ids))}
	for i, id := range ids {
		query.Keys[i] = id.Key
		if id.StoreKey != "" {
			query.StoreKeys = append(query.StoreKeys, id.StoreKey)
		}
	}
	return query
}

// WhatIsKnown says which of the limit is known, for a limit of another limiter.
func WhatIsKnown(e *admin.Entry) string {
	var lacks []string
	if !e.CapacityKnown() {
		lacks = append(lacks, "how much is allowed")
	}
	if e.Limit.Period <= 0 {
		lacks = append(lacks, "in what time")
	}
	if !e.UsedKnown() {
		lacks = append(lacks, "how much is used")
	}
	if len(lacks) == 0 {
		return ""
	}
	return "the keys do not tell " + strings.Join(lacks, ", ") + "; --limit can say the limit"
}
