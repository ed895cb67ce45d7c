exec epmd -address 127.0.0.1 -port "$IDEM_EPMD_PORT"
