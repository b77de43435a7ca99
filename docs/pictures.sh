#!/bin/sh
# Makes the pictures of docs/images again, from a dashboard and reports on this machine: sh docs/pictures.sh bin/limitctl.
# It starts a private Redis, and needs redis-server, termtosvg and chromium.
set -eu
limitctl=$(realpath "$1")
images=$(realpath docs/images)
samples=$(realpath docs/samples)
work=$(mktemp -d)
export HOME="$work" XDG_STATE_HOME="$work" XDG_CONFIG_HOME="$work"
server= traffic=
clean_up() {
	set +e
	kill $server $traffic
	wait
	rm -rf "$work"
}
trap 'clean_up 2>/dev/null' EXIT
trap 'exit 1' INT TERM # which ends what it started

port=6392
redis-server --port $port --bind 127.0.0.1 --save '' --dir "$work" --logfile "$work/log" &
server=$!
export LIMITCTL_STORE=redis://localhost:$port
until redis-cli -p $port ping >/dev/null 2>&1; do sleep 0.1; done
cp -R "$samples" "$work/samples" # so that the commands that pictures show have no path of this machine
mkdir "$work/bin"
ln -s "$limitctl" "$work/bin/limitctl"
export PATH="$work/bin:$PATH" TERM=xterm-256color LANG=C.UTF-8
cd "$work/samples"

# The dashboard, with some busy tenants, one of them above its limit, and a blocked scraper.
limitctl override set -q --policy api tenant=globex --times 3 --for 2h --reason 'launch day' --yes
limitctl block -q 'ip:198.51.100.*' --for 1h --reason scraper --yes
(
	set +e # a denial is an answer
	limitctl consume -q --policy api tenant=acme user=7 route=/export --cost 58
	limitctl consume -q --policy api tenant=initech user=3 route=/upload --cost 57
	limitctl consume -q --policy llm team=search --cost tokens=70000
	n=0
	while :; do
		n=$((n + 1))
		limitctl consume -q --policy api tenant=acme user=7 route=/export --cost 3 &
		limitctl consume -q --policy api tenant=acme user=$((n % 3 + 8)) route=/search --cost 7 &
		limitctl consume -q --policy api tenant=globex user=$((n % 4 + 1)) route=/search --cost $((n % 3 + 9)) &
		limitctl consume -q --policy api tenant=initech user=3 route=/upload --cost $((n % 5 + 1)) &
		for ip in 203.0.113.9 198.51.100.7; do
			limitctl consume -q --policy login ip=$ip email="user$((n % 9))@example.com" &
		done
		limitctl consume -q --policy llm team=search --cost tokens=$((n % 7 * 900 + 100)) &
		wait
		sleep 0.3
	done
) >/dev/null 2>&1 &
traffic=$!
mkdir "$work/frames"
(sleep 8; printf jj; sleep 2; printf q) | termtosvg "$work/frames" -s -t gjm8 -g 132x24 -c "limitctl dashboard" >/dev/null
cp "$(find "$work/frames" -size +8k | sort | tail -1)" "$images/dashboard.svg" # the last one that shows keys
kill $traffic
wait $traffic 2>/dev/null || true
traffic=

# A limit in five commands, as a moving picture.
redis-cli -p $port flushall >/dev/null
cat >"$work/demo" <<'EOT'
types() {
	printf '$ '
	sleep 0.6
	echo "$1"
	sleep 0.4
	sh -c "$1"
	sleep "$2"
}
types 'limitctl consume user:42 --limit 3/1h --cost 3' 1.4
types 'limitctl consume user:42 --limit 3/1h' 1.8
types "limitctl inspect 'user:*'" 1.8
types 'limitctl reset user:42 --yes' 1.8
types 'limitctl undo --yes' 1.8
types "limitctl inspect 'user:*'" 2.6
EOT
sleep 20 | termtosvg "$images/demo.svg" -t gjm8 -g 100x26 -m 50 -c "sh $work/demo" >/dev/null

# Reports: at the edge of a window, of a store that stopped, and of recorded traffic. They begin with a warning if the
# machine was busy.
shoot() {
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size="$3" --timeout=5000 \
		--screenshot="$images/$2" "file://$work/samples/$1" >/dev/null 2>&1
}
redis-cli -p $port flushall >/dev/null
limitctl loadtest --limit 100/1s --algorithm token-bucket,fixed-window,sliding-log --scenario boundary --html report.html >/dev/null
shoot report.html report.png 1000,1180
sh stall.sh "$LIMITCTL_STORE" &
limitctl loadtest --limit 1000000/1m --rate 1000 --duration 5s --html stall.html >/dev/null
shoot stall.html stall.png 1000,1160
limitctl simulate access.log --limit 30/1m --algorithm token-bucket,fixed-window --html simulate.html >/dev/null
shoot simulate.html simulate.png 1130,1180
