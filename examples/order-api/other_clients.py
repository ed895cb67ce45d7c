"""Sends orders to a running order-api by clients that others wrote, and counts what was charged.

    AMQP_URL=none STORE_URL=sqlite:/tmp/orders.db cargo run --release -p order-api
    python3 examples/order-api/other_clients.py /tmp/orders.db 127.0.0.1:8080

It needs curl, wrk and Python's requests. The database is to be empty.
"""

import json, socket, sqlite3, subprocess, sys, tempfile, threading

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

DATABASE, ADDRESS = sys.argv[1:]
KEYS, SECONDS = 64, 5


def charges():
    with sqlite3.connect(DATABASE) as db:
        return dict(db.execute("SELECT order_id, count(*) FROM charges GROUP BY order_id"))


def order(id):
    return json.dumps({"order_id": id, "customer": "ann", "amount_cents": 1299})


def assert_charged_once(client, ids):
    charged = charges()
    wrong = {id: charged.get(id, 0) for id in ids if charged.get(id) != 1}
    assert not wrong, f"{client}: {wrong}"
    print(f"{client}: {len(ids)} orders, each charged once")


def by_curl():
    def post():
        asked = ["curl", "-sS", "-i", "--retry", "5", "--retry-all-errors", f"http://{ADDRESS}/charges",
                 "-H", "Idempotency-Key: \"curl-1\"", "-H", "Content-Type: application/json", "-d", order("curl-1")]
        head, body = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split("\n\n")[-2:]
        return "idempotency-replayed: true" in head, json.loads(body)["charge_id"]

    assert [post(), post()] == [(False, "ch-curl-1"), (True, "ch-curl-1")]
    assert_charged_once("curl", ["curl-1"])


class BadNetwork:
    """A proxy that cuts two of three connections: before the request has arrived, or after it was handled."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            client, _ = self.listener.accept()
            number, self.connections = self.connections, self.connections + 1
            threading.Thread(target=self.passes, args=(client, number % 3), daemon=True).start()

    def passes(self, client, kind):
        host, port = ADDRESS.split(":")
        server = socket.create_connection((host, int(port)))
        try:
            request = client.recv(65536)
            if kind == 0:
                server.sendall(request[:100])
                return
            server.sendall(request)
            threading.Thread(target=self.pump, args=(client, server), daemon=True).start()
            while answer := server.recv(65536):
                if kind == 1:
                    return client.sendall(answer[:5])
                client.sendall(answer)
        except OSError:
            pass
        finally:
            for it in (client, server):
                try:
                    it.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
                it.close()

    @staticmethod
    def pump(source, sink):
        try:
            while sent := source.recv(65536):
                sink.sendall(sent)
        except OSError:
            pass


def by_requests():
    network = BadNetwork()
    retries = Retry(total=10, backoff_factor=0.05, allowed_methods=None, status_forcelist=[409, 503])
    ids = [f"requests-{n}" for n in range(100)]
    for id in ids:
        with requests.Session() as session:
            session.mount("http://", HTTPAdapter(max_retries=retries))
            headers = {"Idempotency-Key": f'"{id}"', "Content-Type": "application/json", "Connection": "close"}
            answer = session.post(f"http://{network.address}/charges", data=order(id), headers=headers, timeout=10)
            assert answer.status_code == 201 and answer.json()["charge_id"] == f"ch-{id}", answer.text
    assert network.connections > len(ids), "the network was not bad"
    assert_charged_once("requests", ids)


def by_wrk():
    """A load generator that sends the same 64 requests over and over, many at once."""
    script = """
        local number = 0
        function request()
            number = (number + 1) %% %d
            local id = "wrk-" .. number
            local headers = { ["Idempotency-Key"] = id, ["Content-Type"] = "application/json" }
            local order = '{"order_id": "' .. id .. '", "customer": "ann", "amount_cents": 1299}'
            return wrk.format("POST", "/charges", headers, order)
        end
    """ % KEYS
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as lua:
        lua.write(script)
        lua.flush()
        asked = ["wrk", "-t2", "-c64", f"-d{SECONDS}s", "-s", lua.name, f"http://{ADDRESS}"]
        told = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    assert "Non-2xx" not in told and "Socket errors" not in told, told
    print(next(line.strip() for line in told.splitlines() if "Requests/sec" in line))
    assert_charged_once("wrk", [f"wrk-{n}" for n in range(KEYS)])


by_curl()
by_requests()
by_wrk()
