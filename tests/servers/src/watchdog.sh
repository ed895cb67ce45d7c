# Keeps one server, in a process group of its own, for whoever holds our standard input.
# `start` starts it and answers with its process id, `end` kills all its processes. At end of file,
# which also comes when the holder was killed, they are killed and the folder removed.
folder=$1
launch=$2
server=

# Stops what descends from the process $1, so that it forks no more, and prints the ids. Those that
# have left the server's group are the reason: PostgreSQL's processes all do.
stop_descendants() {
    for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do
        kill -s STOP "$child" 2>/dev/null
        echo "$child"
        stop_descendants "$child"
    done
}

end() {
    if [ -n "$server" ]; then
        kill -s STOP "$server" 2>/dev/null
        # The process by itself, too: for an instant it is not yet the leader of a group.
        kill -s KILL -- "-$server" "$server" $(stop_descendants "$server") 2>/dev/null
        wait "$server" 2>/dev/null
        server=
    fi
}

while read -r order; do
    case $order in
    start)
        end
        setsid sh "$launch" </dev/null >>"$folder/server.out" 2>&1 &
        server=$!
        echo "$server"
        ;;
    end)
        end
        echo ended
        ;;
    esac
done

end
if [ -e "$folder/leftovers.sh" ]; then
    # Removes what a killed server leaves outside of its folder.
    sh "$folder/leftovers.sh" >/dev/null 2>&1
fi
# What was just killed may still be closing its files.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf -- "$folder" 2>/dev/null && break
    sleep 0.1
done
