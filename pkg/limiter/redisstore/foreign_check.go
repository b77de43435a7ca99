package redisstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/limitctl/limitctl/internal/redisserver"
	"github.com/limitctl/limitctl/pkg/limiter/admin"
	"github.com/limitctl/limitctl/pkg/limiter/foreign"
	"github.com/limitctl/limitctl/pkg/limiter/store"
)

// CheckImport implements [admin.ImportCheck]. It tries the commands by which a script brings the
// records back, each with arguments that no server takes. Rights are checked before arguments, so
// that the answer tells them and nothing is changed.
func (f *foreignKeys) CheckImport(ctx context.Context, records ...admin.Record) error {
	if err := f.store.lanes.Check(); err != nil {
		return err
	}
	for i := range records {
		for j := range records[i].Parts {
			for _, try := range importTries(&records[i].Parts[j]) {
				if err := f.try(ctx, try); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// importTries are what to try of the commands that bring back a part.
func importTries(part *admin.Part) [][]any {
	switch key := part.StoreKey; {
	case part.Field != "" && !part.Expires.IsZero():
		return [][]any{{"hset", key, "", "", ""}, {"pexpireat", key, "never"}} // a value is missing; no number
	case part.Field != "":
		return [][]any{{"hset", key, "", "", ""}}
	case part.Type == string(foreign.StringValue):
		return [][]any{{"set", key, "", "nx", "xx"}} // which exclude each other
	default:
		return [][]any{{"restore", key, -1, ""}} // no time, and no value
	}
}

// try runs a command that fails in any case. It returns an error if the user may not run it, or
// if no server answers. That the user may not reach the key is not told here: a deletion needs
// the key as well, and says so.
func (f *foreignKeys) try(ctx context.Context, args []any) error {
	command, storeKey := args[0].(string), args[1].(string)
	err := f.store.lanes.Client.Do(ctx, args...).Err()
	switch {
	case redisserver.IsErrorReply(err, "ERR unknown command"):
		return fmt.Errorf("%w: the server has no command %s", store.ErrRefused, strings.ToUpper(command))
	case redisserver.LacksRight(err) && strings.Contains(err.Error(), "to run"):
		return fmt.Errorf("%w: %s", store.ErrRefused, redisserver.LacksCommand(command))
	case redisserver.IsReply(err):
		return nil
	}
	return f.store.lanes.Explain(err, "import", false, []string{storeKey})
}
