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
export PATH="$work/bin:$PATH" TERM=xterm-256color LANG=C.UTF-8 COLORFGBG="15;0"
cd "$work/samples"

# The dashboard while a user of a tenant is denied, and after one key, o, with what its form asks, has let them through.
limitctl consume -q --policy api tenant=acme user=7 route=/export --cost 60
(
	set +e # a denial is an answer
	n=0
	while :; do
		n=$((n + 1))
		limitctl consume -q --policy api tenant=acme user=7 route=/export --cost 2 &
		limitctl consume -q --policy api tenant=acme user=$((n % 2 + 8)) route=/search &
		[ $((n % 2)) -gt 0 ] || limitctl consume -q --policy api tenant=globex user=1 route=/search &
		[ $((n % 5)) -gt 0 ] || limitctl consume -q --policy api tenant=initech user=3 route=/upload --cost 2 &
		[ $((n % 40)) -ne 1 ] || limitctl consume -q --policy login ip=203.0.113.9 email=ada@example.com &
		wait
		sleep 0.3
	done
) >/dev/null 2>&1 &
traffic=$!
begins=14 # seconds, after which the picture begins: the curves have a form by then
cat >"$work/types" <<'EOT'
sleep 19; printf o; sleep 3
for key in 1 2 3 4 5 6; do printf '\r'; sleep 0.7; done
sleep 2; printf y; sleep 14; printf q
EOT
sh "$work/types" | termtosvg record "$work/cast" -g 110x24 -c "limitctl dashboard --policy '*'" >/dev/null
kill $traffic
wait $traffic 2>/dev/null || true
traffic=
awk -v begins=$begins 'NR == 1 { print; next } {
	comma = index($0, ","); at = substr($0, 2, comma - 2) - begins
	printf "[%f%s\n", at < 0 ? 0 : at, substr($0, comma)
}' "$work/cast" >"$work/cut"
termtosvg render "$work/cut" "$images/demo.svg" -t gjm8 -m 400 >/dev/null
mkdir "$work/frames"
termtosvg render "$work/cut" "$work/frames" -s -t gjm8 -m 400 >/dev/null
cp "$(find "$work/frames" -type f | sort | head -1)" "$images/dashboard.svg"

# Reports: at the edge of a window, of a store that stopped, and of recorded traffic. They begin with a warning if the
# machine was busy.
shoot() {
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size="$3" --timeout=5000 \
		--screenshot="$images/$2" "file://$work/samples/$1" >/dev/null 2>&1
}
redis-cli -p $port flushall >/dev/null
limitctl loadtest --limit 100/1s --algorithm token-bucket,fixed-window,sliding-log --scenario boundary --html report.html >/dev/null
shoot report.html report.png 1000,1140
sh stall.sh "$LIMITCTL_STORE" &
limitctl loadtest --limit 1000000/1m --rate 1000 --duration 5s --html stall.html >/dev/null
shoot stall.html stall.png 1000,1160
limitctl simulate access.log --limit 30/1m --algorithm token-bucket,fixed-window --html simulate.html >/dev/null
shoot simulate.html simulate.png 1130,1060
