# Makes the folder $1 by the script $2, which is given a folder to fill and what follows here. It
# gets its name when it is complete; what an interrupted run has left is made again. Others wait,
# also for a run whose owner has been killed: what it started holds the lock.
set -e
place=$1 script=$2
shift 2
exec 9>"$place.lock"
if ! flock --nonblock 9; then
    echo "another process is making it: waiting"
    flock 9
fi
[ ! -e "$place" ] || exit 0
making=$place.making
rm -rf --one-file-system -- "$making"
log=$place.log
if ! sh -ec "$script" make "$making" "$@" >"$log" 2>&1; then
    echo "--- the end of $log ---"
    tail -n 20 "$log"
    exit 1
fi
# What local names are for a server: its node is on localhost.
printf '127.0.0.1 localhost\n::1 localhost\n' >"$making/etc/hosts"
mv -- "$making" "$place"
echo "it is complete"
