#!/bin/sh
# Makes the pictures of docs/images again, from a dashboard and reports on this machine:
# sh docs/pictures.sh bin/limitctl. It starts a private Redis, and needs redis-server, tmux, chromium and go.
set -eu
limitctl=$(realpath "$1")
images=$(realpath docs/images)
samples=$(realpath docs/samples)
work=$(mktemp -d)
go build -o "$work/pictures" ./docs/pictures
export HOME="$work" XDG_STATE_HOME="$work" XDG_CONFIG_HOME="$work"
socket=$work/tmux
server= traffic=
clean_up() {
	set +e
	tmux -S "$socket" kill-server
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

# shoot PAGE IMAGE WIDTH HEIGHT [FLAG]
shoot() {
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size="$3,$4" --timeout=5000 ${5-} \
		--screenshot="$work/page.png" "$1" >"$work/chromium" 2>&1 || { cat "$work/chromium" >&2; exit 1; }
	"$work/pictures" -small <"$work/page.png" >"$images/$2"
}

# shoot_both PAGE NAME WIDTH HEIGHT makes a picture for light pages, and one for dark ones.
shoot_both() {
	shoot "$1" "$2.png" "$3" "$4" --blink-settings=preferredColorScheme=1
	shoot "$1" "$2-dark.png" "$3" "$4" --blink-settings=preferredColorScheme=0
}

cp -R "$samples" "$work/samples" # so that the commands that pictures show have no path of this machine
cd "$work/samples"

# The dashboard, with some busy tenants, one of them above its limit, and a blocked scraper.
{ cat limitctl.yaml; echo 'denials: true'; } >"$work/limitctl.yaml"
export LIMITCTL_CONFIG="$work/limitctl.yaml"
"$limitctl" override set -q --policy api tenant=globex --times 3 --for 2h --reason 'launch day' --yes
"$limitctl" block -q 'ip:198.51.100.*' --for 1h --reason scraper --yes
(
	set +e # a denial is an answer
	"$limitctl" consume -q --policy api tenant=acme user=7 route=/export --cost 58
	"$limitctl" consume -q --policy api tenant=initech user=3 route=/upload --cost 57
	"$limitctl" consume -q --policy llm team=search --cost tokens=70000
	n=0
	while :; do
		n=$((n + 1))
		"$limitctl" consume -q --policy api tenant=acme user=7 route=/export --cost 3 &
		"$limitctl" consume -q --policy api tenant=acme user=$((n % 3 + 8)) route=/search --cost 7 &
		"$limitctl" consume -q --policy api tenant=globex user=$((n % 4 + 1)) route=/search --cost $((n % 3 + 9)) &
		"$limitctl" consume -q --policy api tenant=initech user=3 route=/upload --cost $((n % 5 + 1)) &
		for ip in 203.0.113.9 198.51.100.7; do
			"$limitctl" consume -q --policy login ip=$ip email="user$((n % 9))@example.com" &
		done
		"$limitctl" consume -q --policy llm team=search --cost tokens=$((n % 7 * 900 + 100)) &
		wait
		sleep 0.3
	done
) >/dev/null 2>&1 &
traffic=$!
tmux -S "$socket" -f /dev/null new-session -d -x 132 -y 24 "'$limitctl' dashboard"
tmux -S "$socket" set-option -g status off
until tmux -S "$socket" capture-pane -p >"$work/screen" && test "$(grep -c '✗' "$work/screen")" -ge 3; do sleep 0.2; done
tmux -S "$socket" send-keys Down Down
sleep 1.5
tmux -S "$socket" capture-pane -e -p >"$work/screen"
printf '\f1\n' | cat - "$work/screen" | "$work/pictures" >"$images/dashboard.svg"
kill $traffic
wait $traffic 2>/dev/null || true
traffic=
unset LIMITCTL_CONFIG

# A limit in five commands, as a moving picture.
redis-cli -p $port flushall >/dev/null
mkdir "$work/bin"
ln -s "$limitctl" "$work/bin/limitctl"
tmux -S "$socket" kill-server
PATH=$work/bin:$PATH tmux -S "$socket" -f /dev/null new-session -d -x 100 -y 26 sh
tmux -S "$socket" send-keys "PS1='$ '; clear" Enter
sleep 1

# screen SECONDS adds what the terminal shows now.
screen() {
	printf '\f%s\n' "$1"
	tmux -S "$socket" capture-pane -e -p
}

# types TEXT SECONDS SECONDS types a line, and shows it before and after.
types() {
	tmux -S "$socket" send-keys -l "$1"
	sleep 0.3
	screen "$2"
	tmux -S "$socket" send-keys Enter
	sleep 1.5
	screen "$3"
}
{
	screen 0.4
	types 'limitctl consume user:42 --limit 3/1h --cost 3' 0.8 1.4
	types 'limitctl consume user:42 --limit 3/1h' 0.6 1.8
	types "limitctl inspect 'user:*'" 0.6 1.8
	types 'limitctl reset user:42' 0.6 1.4
	types y 0.3 1.4
	types 'limitctl undo' 0.6 1.2
	types y 0.3 2.6
} | "$work/pictures" >"$images/demo.svg"

# What probe finds out about a service.
cat >"$work/probed.yaml" <<'EOT'
policies: {api: {limits: [{name: user, by: [user], limit: 20/2s}], http: {attributes: {user: "header:X-User"}}}}
EOT
"$limitctl" serve --config "$work/probed.yaml" --store memory: --listen 127.0.0.1:8080 --admin 127.0.0.1:6394 2>"$work/served" &
page=$!
until curl -sf http://127.0.0.1:6394/readyz >/dev/null; do sleep 0.1; done
tmux -S "$socket" send-keys 'limitctl() { command limitctl "$@" 2>/dev/null; }; clear' Enter # without its progress
sleep 1
tmux -S "$socket" send-keys "limitctl probe http://127.0.0.1:8080/v1/auth/api -H 'X-User: {subject}'" Enter
until tmux -S "$socket" capture-pane -e -p >"$work/screen" && grep -q 'costs.* there is no' "$work/screen"; do sleep 0.5; done
printf '\f1\n' | cat - "$work/screen" | "$work/pictures" >"$images/probe.svg"
kill $page
page=

# Reports: at the edge of a window, of a store that stopped, and of recorded traffic. They begin with a warning if
# the machine was busy, so they are made again until it is quiet.
tmux -S "$socket" kill-server
redis-cli -p $port flushall >/dev/null
for try in 1 2 3 4 5 6 7 8; do
	"$limitctl" loadtest --limit 100/1s --algorithm token-bucket,fixed-window,sliding-log --scenario boundary \
		--html report.html --save report.json >/dev/null
	"$limitctl" report report.json | grep -q -e '^✗' -e '^!' || break
	rm report.json
done
shoot_both "file://$work/samples/report.html" report 1000 1440
sh stall.sh "$LIMITCTL_STORE" &
"$limitctl" loadtest --limit 1000000/1m --rate 1000 --duration 5s --html stall.html >/dev/null
shoot_both "file://$work/samples/stall.html" stall 1000 1620
"$limitctl" simulate access.log --limit 30/1m --algorithm token-bucket,fixed-window --html simulate.html >/dev/null
shoot_both "file://$work/samples/simulate.html" simulate 1130 1480
