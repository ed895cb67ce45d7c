exec "$IDEM_REDIS/redis-server" "$HOME/redis.conf"
