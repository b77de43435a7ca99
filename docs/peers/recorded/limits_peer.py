#!/usr/bin/python3
"""The Python library limits, for record.py."""

import json
import sys

import limits
import limits.storage
import limits.strategies

fixed = limits.strategies.FixedWindowRateLimiter
elastic = limits.strategies.FixedWindowElasticExpiryRateLimiter
moving = limits.strategies.MovingWindowRateLimiter
CASES = [
    ("fixed", fixed, "5/2second", 2), ("fixed", fixed, "3/1minute", 5), ("fixed", fixed, "1000/2day", 1), ("fixed", fixed, "1/1second", 1),
    ("elastic", elastic, "4/2second", 2), ("elastic", elastic, "20/1hour", 1),
    ("moving", moving, "5/3second", 3), ("moving", moving, "1/1second", 1), ("moving", moving, "8/1minute", 5),
    ("moving", moving, "12/4second", 2),
]


def main():
    storage = limits.storage.storage_from_string("redis://127.0.0.1:%s" % sys.argv[1])
    limiters = [(strategy(storage), limits.parse(text)) for _, strategy, text, _ in CASES]
    print(json.dumps([{"name": name, "limit": text, "period": period} for name, _, text, period in CASES]), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        limiter, item = limiters[asked["case"]]
        if asked["op"] == "take":
            answer = {"allowed": limiter.hit(item, asked["id"], "index")}
        else:
            reset, remaining = limiter.get_window_stats(item, asked["id"], "index")
            answer = {"allowed": limiter.test(item, asked["id"], "index"), "remaining": remaining, "reset": reset}
        print(json.dumps(answer), flush=True)


main()
