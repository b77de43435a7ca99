package cost

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	redisserver "github.com/limitctl/limitctl/internal/redis"
)

// kind says how a command relates to decisions.
type kind uint8

const (
	other  kind = iota // no part of a decision
	script             // a decision by a script
	plain              // a part of a decision, within a script or alone
)

// kindOf returns the kind of a command by its name in lower case.
func kindOf(command string) kind {
	switch command {
	case "evalsha", "eval", "evalsha_ro", "eval_ro":
		return script
	case "time", "get", "set", "getrange", "setrange", "strlen", "exists", "type", "pttl", "pexpireat", "pexpire", "del":
		return plain
	}
	return other
}

// counters counts commands to the servers. It is a [redis.Hook].
//
// A hook also sees the commands with which a client sets up its connections and learns about a Cluster. They are of
// the kind other, and not counted.
type counters struct {
	redisserver.PassHook
	exchanges, scripts, plain atomic.Int64
}

// counts is a copy of counters.
type counts struct {
	exchanges, scripts, plain int64
}

func (c *counters) now() counts {
	return counts{exchanges: c.exchanges.Load(), scripts: c.scripts.Load(), plain: c.plain.Load()}
}

func (c counts) minus(before counts) counts {
	return counts{exchanges: c.exchanges - before.exchanges, scripts: c.scripts - before.scripts, plain: c.plain - before.plain}
}

// ProcessHook implements [redis.Hook].
func (c *counters) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch kindOf(cmd.Name()) {
		case script:
			c.exchanges.Add(1)
			c.scripts.Add(1)
		case plain:
			c.exchanges.Add(1)
			c.plain.Add(1)
		case other:
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (c *counters) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		var scripts, plains int64
		for _, cmd := range cmds {
			switch kindOf(cmd.Name()) {
			case script:
				scripts++
			case plain:
				plains++
			case other:
			}
		}
		if scripts+plains > 0 {
			c.exchanges.Add(1)
			c.scripts.Add(scripts)
			c.plain.Add(plains)
		}
		return next(ctx, cmds)
	}
}
