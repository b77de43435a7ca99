#!/usr/bin/python3
"""Records what a limiter keeps in Redis, and what it says of it itself.

Usage: record.py SECONDS PEER..., where PEER is a command such as ./limits_peer.py. It writes
lines of JSON to stdout. It starts a redis-server of its own, and ends it.

A peer gets the port of the Redis server as its last argument. It writes one line: a list of cases,
each with the limit as limitctl has it, the period in seconds, and how many units a take may be
("cost", usually absent). Then it reads lines {"op", "case", "id"} and answers each with a line:
"peek" is what the library says without writing (null if it cannot), "take" is one more request.
"""

import base64
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time

import redis

SNAPSHOT = """
local now = redis.call('TIME')
local found = {now[1] * 1000000 + now[2]}
local keys = redis.call('KEYS', '*')
table.sort(keys)
for _, key in ipairs(keys) do
  local kind, value = redis.call('TYPE', key).ok, false
  if kind == 'string' then value = {redis.call('GET', key)}
  elseif kind == 'list' then value = redis.call('LRANGE', key, 0, -1)
  elseif kind == 'hash' then value = redis.call('HGETALL', key)
  elseif kind == 'zset' then value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  end
  table.insert(found, {key, kind, value, redis.call('PTTL', key)})
end
return found
"""


def microseconds(store):
    seconds, more = store.time()
    return seconds * 1_000_000 + more


def snapshot(store):
    at, *keys = store.eval(SNAPSHOT, 0)
    return at, [
        {"key": key.decode(), "type": kind.decode(), "ttl": ttl, "value": [base64.b64encode(part).decode() for part in value]}
        for key, kind, value, ttl in keys
    ]


def record(store, peer, seconds):
    def ask(op, case, who):
        peer.stdin.write(json.dumps({"op": op, "case": case, "id": who}) + "\n")
        peer.stdin.flush()
        line = peer.stdout.readline()
        if not line:
            sys.exit("the peer is gone")
        return json.loads(line)

    cases = json.loads(peer.stdout.readline())
    for number, case in enumerate(cases):
        store.flushdb()
        who, ends = "203.0.113.%d" % (number + 1), time.monotonic() + seconds
        states = 0
        while time.monotonic() < ends and states < case.get("states", 30):
            at, keys = snapshot(store)
            peek = ask("peek", number, who)
            until = microseconds(store)
            take = ask("take", number, who)
            line = {"case": case["name"], "limit": case["limit"], "id": who, "at": at, "until": until,
                    "taken": microseconds(store), "keys": keys, "peek": peek, "take": take}
            print(json.dumps(line, separators=(",", ":")), flush=True)
            states += 1
            # Some requests at once, some after a while, some after all has come back.
            dice = random.random()
            if dice < 0.4:
                time.sleep(random.random() * case["period"] / 4)
            elif dice < 0.5:
                time.sleep(random.random() * case["period"] * 1.2)


def main():
    seconds, command = float(sys.argv[1]), sys.argv[2:]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as directory:
        server = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", directory],
                                  stdout=subprocess.DEVNULL)
        try:
            store = redis.Redis(port=port)
            while True:
                try:
                    store.ping()
                    break
                except redis.ConnectionError:
                    time.sleep(0.05)
            peer = subprocess.Popen(command + [str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ)
            try:
                record(store, peer, seconds)
            finally:
                peer.stdin.close()
                peer.wait(10)
        finally:
            server.terminate()
            server.wait()


main()
