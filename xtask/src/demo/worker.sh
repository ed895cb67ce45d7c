# Runs a worker, tells its process id, and kills it at end of file on standard input, which comes
# when the demonstration is over, or was killed itself.
"$@" </dev/null &
worker=$!
echo "{\"pid\":$worker}"
while read -r _; do :; done
kill -s KILL "$worker" 2>/dev/null
wait "$worker"
