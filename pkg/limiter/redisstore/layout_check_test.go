package redisstore_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/limitctl/limitctl/internal/redistest"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// Before records are deleted it can be asked if the user may bring them back. That is true exactly if
// an import of the same records works afterwards, and asking changes nothing.
func TestALayoutImportIsChecked(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	owner := server.Client()
	for _, without := range []string{"", "restore", "set"} {
		owner.FlushAll(ctx)
		owner.Set(ctx, "text", "5", time.Hour)
		owner.HSet(ctx, "hash", "f", "5", "g", "6")
		owner.ZAdd(ctx, "zset", redis.Z{Score: 5, Member: "a"})
		in := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		parts := map[string]admin.Member{
			"set":     {StoreKey: "text", Type: "string", Dump: []byte(server.Do("DUMP", "text").(string)), Expires: in},
			"restore": {StoreKey: "hash", Type: "hash", Dump: []byte(server.Do("DUMP", "hash").(string))},
		}
		server.Do("ACL", "SETUSER", "tried", "reset", "on", ">pw", "~*", "+@all")
		if without != "" {
			server.Do("ACL", "SETUSER", "tried", "-"+without)
		}
		client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "tried", Password: "pw", DisableIdentity: true})
		t.Cleanup(func() { client.Close() })
		keys := othersOn(t, client)
		check, has := admin.ImportCheckOf(keys)
		if !has {
			t.Fatal("there is no check")
		}
		before := keysIn(t, owner)
		refused := map[string]error{}
		for command, part := range parts {
			if err := check.CheckImport(ctx, admin.Record{Members: []admin.Member{part}}); err != nil {
				refused[command] = err
			}
		}
		if after := keysIn(t, owner); !maps.Equal(before, after) {
			t.Errorf("without %q the check changed %v to %v", without, before, after)
		}
		owner.FlushAll(ctx)
		for command, part := range parts {
			record := admin.Record{Key: store.Key{Subject: "s", Name: "any"}, Members: []admin.Member{part}}
			_, err := keys.Import(ctx, true, record)
			if (err != nil) != (refused[command] != nil) {
				t.Errorf("without %q the check of the part for %s says %v, and the import %v", without, command, refused[command], err)
			}
			owner.FlushAll(ctx)
		}
		if err := refused[without]; without != "" && (!errors.Is(err, store.ErrRefused) ||
			!strings.Contains(err.Error(), "the right to run "+strings.ToUpper(without)+" (ACL SETUSER … +"+without+")")) {
			t.Errorf("without %q: %v", without, err)
		}
	}
}
