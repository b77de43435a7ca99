#!/usr/bin/python3
"""Django REST framework's throttles over a cache of django-redis, for record.py."""

import json
import sys

import django
from django.conf import settings

settings.configure(
    CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": "redis://127.0.0.1:%s/0" % sys.argv[1]}},
    SECRET_KEY="recorded", USE_TZ=True,
)
django.setup()

from rest_framework import request, test, throttling, views  # noqa: E402

CASES = [("user", "3/sec", 1), ("anon", "2/sec", 1), ("user", "5/min", 8), ("scoped", "8/hour", 8), ("scoped", "6/sec", 1),
         ("anon", "20/day", 3), ("anon", "12/min", 6), ("scoped", "1/sec", 1)]
KINDS = {"user": throttling.UserRateThrottle, "anon": throttling.AnonRateThrottle, "scoped": throttling.ScopedRateThrottle}


class User:
    is_authenticated = True

    def __init__(self, pk):
        self.pk = pk


def main():
    periods = {"sec": "1s", "min": "1m", "hour": "1h", "day": "1d"}
    print(json.dumps([{"name": name, "limit": "%s/%s" % (rate.split("/")[0], periods[rate.split("/")[1]]), "period": period, "states": 24}
                      for name, rate, period in CASES]), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["op"] == "peek":
            print("null", flush=True)
            continue
        kind, rate, _ = CASES[asked["case"]]
        view = views.APIView()
        view.throttle_scope = "uploads"
        call = request.Request(test.APIRequestFactory().get("/", REMOTE_ADDR=asked["id"]))
        if kind != "anon":
            call.user = User(int(asked["id"].split(".")[-1]))
        else:
            call.user = None
        throttle = type("Throttle", (KINDS[kind],), {"THROTTLE_RATES": {kind: rate, "uploads": rate}})()
        allowed = throttle.allow_request(call, view)
        answer = {"allowed": allowed, "used": len(throttle.history) - (1 if allowed else 0)}
        if not allowed:
            answer["retry"] = throttle.wait()
        print(json.dumps(answer), flush=True)


main()
