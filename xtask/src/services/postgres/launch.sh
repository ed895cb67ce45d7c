# Makes the data on the first start, then becomes the server. PostgreSQL refuses to be root.
if [ "$(id -u)" = 0 ]; then
    exec setpriv --reuid=postgres --regid=postgres --clear-groups sh "$0"
fi
cd "$HOME" || exit
if [ ! -d data ]; then
    # Under another name until it is complete: the first start may be killed, too.
    rm -rf unfinished
    "$IDEM_POSTGRES/initdb" --pgdata=unfinished --username=idem --auth=trust \
        --encoding=UTF8 --no-locale --no-sync --no-instructions || exit
    echo 'CREATE DATABASE idem' |
        "$IDEM_POSTGRES/postgres" --single -j -D unfinished postgres || exit
    mv unfinished data || exit
fi
exec "$IDEM_POSTGRES/postgres" -D "$HOME/data" -c "config_file=$HOME/postgresql.conf"
