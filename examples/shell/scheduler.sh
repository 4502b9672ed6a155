#!/bin/sh
# A scheduler that knows nothing of elections. Start it twice, in two terminals:
#
#     elect run -- ./examples/shell/scheduler.sh /tmp/ticks.log
#
# It appends a line a second to the log, with the token that elect gave it, and
# goes on where the last one stopped. The lines have the form that
#
#     go run ./examples/scheduler -log /tmp/ticks.log -verify
#
# checks: no tick twice, none left out, tokens never falling.
set -eu

log=${1:-ticks.log}
: "${ELECT_TOKEN:?run this under elect: elect run -- $0 $log}"

touch "$log"
# Cut off a partial line of a process that was killed while it wrote.
if [ -s "$log" ] && [ "$(tail -c 1 "$log" | wc -l)" -eq 0 ]; then
	sed -i '$d' "$log"
fi
tick=$(sed -n '$s/^tick=\([0-9]*\) .*/\1/p' "$log")
while :; do
	tick=$((${tick:-0} + 1))
	echo "tick=$tick token=$ELECT_TOKEN pid=$$" >>"$log"
	sleep 1
done
