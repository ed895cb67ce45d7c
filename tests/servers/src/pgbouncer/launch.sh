# PgBouncer refuses to be root.
if [ "$(id -u)" = 0 ]; then
    exec setpriv --reuid=postgres --regid=postgres --clear-groups sh "$0"
fi
exec "$IDEM_PGBOUNCER/pgbouncer" "$HOME/pgbouncer.ini"
