# The port mapper is the cluster's: it must not end with one node.
exec "$IDEM_RABBITMQ_SERVER"
