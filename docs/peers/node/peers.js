// Runs the rate limiters for Node.js that limitctl's layouts are held to. It reads commands from
// stdin, a JSON object a line, and answers each with a line: what the library says itself.
//
//   {"do": "make", "kind": "upstash-sliding", "count": 10, "periodMs": 2000, ...}
//   {"do": "take", "key": "a", "cost": 1}     {"allowed": true, "remaining": 9, "resetMs": 1200}
//   {"do": "at", "ms": 1795294331450}         what the library's clock shows from now on
//
// The server is the first argument, as host:port.

import { createInterface } from "node:readline";
import { createRequire } from "node:module";

import Redis from "ioredis";
import { Ratelimit } from "@upstash/ratelimit";
import { rateLimit } from "express-rate-limit";
import { RedisStore } from "rate-limit-redis";
import { RateLimiterRedis } from "rate-limiter-flexible";

const require = createRequire(import.meta.url);
require("reflect-metadata");
const { ThrottlerStorageRedisService } = require("@nest-lab/throttler-storage-redis");

const [host, port] = process.argv[2].split(":");
const redis = new Redis({ host, port: Number(port) });

let now = Date.now(); // stands still until it is set
Date.now = () => now;

// upstashRedis is what @upstash/ratelimit needs of its own client, which speaks to a service
// over HTTP. The first line of its scripts has a flag that only that service knows.
const upstashRedis = {
  evalsha: async () => {
    throw new Error("NOSCRIPT");
  },
  eval: async (script, keys, args) => redis.eval(script.replace(/^#!lua.*\n/, ""), keys.length, ...keys, ...args.map(String)),
  hset: async (key, fields) => redis.hset(key, fields),
  get: async (key) => redis.get(key),
  set: async (key, value) => redis.set(key, value),
  del: async (key) => redis.del(key),
};

const window = (o) => `${o.periodMs} ms`;

const makers = {
  "rate-limiter-flexible": (o) => {
    const limiter = new RateLimiterRedis({
      storeClient: redis, points: o.count, duration: o.periodMs / 1000, blockDuration: (o.blockMs ?? 0) / 1000,
      inMemoryBlockOnConsumed: o.memory ? o.count + 1 : 0,
    });
    const answer = (allowed, r) => ({ allowed, remaining: r.remainingPoints, used: r.consumedPoints, resetMs: r.msBeforeNext });
    return {
      take: (key, cost) => limiter.consume(key, cost).then((r) => answer(true, r), (r) => {
        if (r instanceof Error) throw r;
        return answer(false, r);
      }),
    };
  },
  "rate-limit-redis": (o) => {
    const handler = rateLimit({
      windowMs: o.periodMs, limit: o.count, validate: false,
      store: new RedisStore({ sendCommand: (...args) => redis.call(...args) }),
    });
    return {
      take: async (key) => {
        const request = { ip: key, app: { get: () => false }, headers: {} };
        let allowed = false;
        const response = {
          headersSent: false, writableEnded: true, setHeader() {}, status() { return this; }, send() {}, on() {}, once() {},
        };
        await handler(request, response, (error) => {
          if (error) throw error;
          allowed = true;
        });
        const { used, remaining, resetTime } = request.rateLimit;
        return { allowed, used, remaining, resetMs: resetTime.getTime() - Date.now() };
      },
    };
  },
  nestjs: (o) => {
    const storage = new ThrottlerStorageRedisService(redis);
    return {
      take: async (key) => {
        const r = await storage.increment(key, o.periodMs, o.count, o.blockMs ?? o.periodMs, "default");
        return {
          allowed: !r.isBlocked, used: r.totalHits, remaining: r.isBlocked ? 0 : o.count - r.totalHits,
          resetMs: 1000 * Math.max(r.timeToBlockExpire, r.timeToExpire),
        };
      },
    };
  },
};

const upstash = (Limiter, limiter, connection) => (o) => {
  const made = new Limiter({
    redis: connection, limiter: limiter(o), ephemeralCache: o.memory ? new Map() : false, timeout: 0, enableTelemetry: false,
    prefix: o.prefix,
  });
  return {
    take: async (key, cost) => {
      const r = await made.limit(key, { rate: cost });
      await r.pending;
      return { allowed: r.success, remaining: r.remaining, resetMs: r.reset - Date.now() };
    },
  };
};
makers["upstash-fixed"] = upstash(Ratelimit, (o) => Ratelimit.fixedWindow(o.count, window(o)), upstashRedis);
makers["upstash-sliding"] = upstash(Ratelimit, (o) => Ratelimit.slidingWindow(o.count, window(o)), upstashRedis);
makers["upstash-bucket"] = upstash(Ratelimit, (o) => Ratelimit.tokenBucket(o.count, window(o), o.burst), upstashRedis);
makers["upstash-cached"] = upstash(Ratelimit, (o) => Ratelimit.cachedFixedWindow(o.count, window(o)), upstashRedis);

let limiter;
const commands = {
  make: async (c) => {
    limiter = makers[c.kind](c);
    return {};
  },
  take: (c) => limiter.take(c.key, c.cost ?? 1),
  at: async (c) => {
    now = c.ms;
    return {};
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  let answer;
  try {
    answer = (await commands[command.do](command)) ?? {};
  } catch (error) {
    answer = { error: String(error?.stack ?? error) };
  }
  console.log(JSON.stringify(answer));
}
redis.disconnect();
