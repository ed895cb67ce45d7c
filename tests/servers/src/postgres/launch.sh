# Makes the data on the first start, then becomes the server. PostgreSQL refuses to be root.
if [ -n "$IDEM_POSTGRES_DISK" ]; then
    # A small disk, in a namespace of the server's own: it goes with the last process. Nothing forks, so that the process
    # stays the one that was started. Whoever is not root is it in a user namespace, and himself again in one within it.
    if [ "$(id -u)" != 0 ]; then
        as_root='--user --map-root-user'
        as_before="unshare --user --map-user=$(id -u) --map-group=$(id -g)"
    fi
    if ! unshare $as_root --mount true; then
        echo 'A small disk has to be mounted: run the tests as root, or let users have namespaces of their own.'
        exit 1
    fi
    export IDEM_POSTGRES_DISK_SIZE="$IDEM_POSTGRES_DISK"
    unset IDEM_POSTGRES_DISK
    mkdir -p "$HOME/disk"
    exec unshare $as_root --mount sh -ec '
        mount -t tmpfs -o "size=$IDEM_POSTGRES_DISK_SIZE" idem "$HOME/disk"
        [ "$1" ] || chown postgres: "$HOME/disk"
        exec $1 sh "$0"
    ' "$0" "$as_before"
fi
if [ "$(id -u)" = 0 ]; then
    exec setpriv --reuid=postgres --regid=postgres --clear-groups sh "$0"
fi
cd "$HOME" || exit
if [ ! -d data ]; then
    # Under another name until it is complete: the first start may be killed, too.
    rm -rf unfinished
    if [ -n "$IDEM_POSTGRES_PRIMARY" ]; then
        # With the file that makes it a standby, and the primary's address in its settings.
        "$IDEM_POSTGRES/pg_basebackup" --pgdata=unfinished --write-recovery-conf --no-sync \
            --checkpoint=fast --dbname="$IDEM_POSTGRES_PRIMARY" || exit
    else
        # A log on a small disk has segments of a MiB, so that the disk is full of them soon.
        "$IDEM_POSTGRES/initdb" --pgdata=unfinished --username=idem --auth=trust \
            --encoding=UTF8 --no-locale --no-sync --no-instructions \
            ${IDEM_POSTGRES_LOG_ON_DISK:+--waldir="$HOME/disk/log" --wal-segsize=1} || exit
        echo 'CREATE DATABASE idem' |
            "$IDEM_POSTGRES/postgres" --single -j -D unfinished postgres || exit
    fi
    mv unfinished data || exit
fi
if [ "$IDEM_POSTGRES_LOG_ON_DISK" ]; then
    # The disk would be gone with the server that ends itself when its log finds no room. So this process stays, and starts
    # it again when it is told that there is room.
    trap 'kill -s INT "$server"; wait "$server"; exit' INT
    while true; do
        "$IDEM_POSTGRES/postgres" -D "$HOME/data" -c "config_file=$HOME/postgresql.conf" &
        server=$!
        wait "$server"
        until [ -e room ]; do sleep 0.1; done
        rm -f disk/ballast room
    done
fi
exec "$IDEM_POSTGRES/postgres" -D "$HOME/data" -c "config_file=$HOME/postgresql.conf"
