# Makes the data on the first start, then becomes the server. PostgreSQL refuses to be root.
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
        "$IDEM_POSTGRES/initdb" --pgdata=unfinished --username=idem --auth=trust \
            --encoding=UTF8 --no-locale --no-sync --no-instructions || exit
        echo 'CREATE DATABASE idem' |
            "$IDEM_POSTGRES/postgres" --single -j -D unfinished postgres || exit
    fi
    mv unfinished data || exit
fi
exec "$IDEM_POSTGRES/postgres" -D "$HOME/data" -c "config_file=$HOME/postgresql.conf"
