# Runs a program, tells its process id, ends as it does, and kills it at end of file on standard input, which comes when
# the demonstration is over, or was killed itself.
exec 3<&0
"$@" </dev/null 3<&- &
program=$!
echo "{\"pid\":$program}"
(while read -r _; do :; done; kill -s KILL "$program") <&3 3<&- >/dev/null 2>&1 &
guard=$!
exec 3<&-
wait "$program"
status=$?
kill "$guard" 2>/dev/null
exit "$status"
