# Keeps one server, in a process group of its own, for whoever holds our standard input.
# `start` starts it and answers with its process id, `end` kills the whole group. At end of file,
# which also comes when the holder was killed, the group is killed and the folder removed.
folder=$1
launch=$2
server=

end() {
    if [ -n "$server" ]; then
        # The process by itself, too: for an instant it is not yet the leader of a group.
        kill -s KILL -- "-$server" "$server" 2>/dev/null
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
# What was just killed may still be closing its files.
for _ in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf -- "$folder" 2>/dev/null && break
    sleep 0.1
done
