# Runs an Erlang port mapper of our own beside the server and in the same process group, so that it
# ends with it: the one that Erlang starts by itself is a daemon and stays behind for ever.
epmd -address 127.0.0.1 -port "$ERL_EPMD_PORT" &
until epmd -names >/dev/null 2>&1; do
    kill -0 $! 2>/dev/null || exit 1
    sleep 0.02
done
exec "$IDEM_RABBITMQ_SERVER"
