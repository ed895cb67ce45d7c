exec "$IDEM_REDIS/redis-server" "$HOME/redis.conf" $IDEM_REDIS_MODE
