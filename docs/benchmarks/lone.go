package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	loneKeys  = 2000
	loneTakes = 25  // per turn
	loneTurns = 200 // per round
)

// loneSection measures a single caller. The contestants take turns of a few milliseconds, so that a busy machine
// affects all of them alike; the lowest tenth of the turns was not affected.
func loneSection(ctx context.Context, p plan, out io.Writer) error {
	return withRedis(func(client *redis.Client) error {
		contestants, err := withFixedWindow(client, manyKeysQuota)
		if err != nil {
			return err
		}
		keys := subjects(loneKeys)
		for _, c := range contestants {
			if err := fill(ctx, c, keys); err != nil {
				return err
			}
		}
		wall, cpu := make([][]float64, len(contestants)), make([][]float64, len(contestants)) // µs per take
		for turn := range p.rounds * loneTurns {
			for i := range contestants {
				i := (i + turn) % len(contestants)
				take := contestants[i].take()
				own, start := ownCPU(), time.Now()
				for n := range loneTakes {
					if err := takeOne(ctx, contestants[i], take, keys[(turn*loneTakes+n)%loneKeys]); err != nil {
						return err
					}
				}
				wall[i] = append(wall[i], float64(time.Since(start).Nanoseconds())/1000/loneTakes)
				cpu[i] = append(cpu[i], float64((ownCPU()-own).Nanoseconds())/1000/loneTakes)
			}
		}
		fmt.Fprintf(out, "\n### Redis: µs of a take by one caller, over %s keys\n", thousands(loneKeys))
		rows := [][]string{{"", "lowest tenth", "median", "client's processors, lowest tenth", "median"}}
		for i, c := range contestants {
			slices.Sort(wall[i])
			slices.Sort(cpu[i])
			tenth, half := len(wall[i])/10, len(wall[i])/2
			rows = append(rows, []string{c.name, decimals(wall[i][tenth]), decimals(wall[i][half]), decimals(cpu[i][tenth]),
				decimals(cpu[i][half])})
		}
		table(out, rows...)
		return nil
	})
}
