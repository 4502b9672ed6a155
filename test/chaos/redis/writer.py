"""A client of a Redis master by redis-py: as the command worker writes."""
import sys
import threading
import time

import redis
from redis.sentinel import Sentinel

name, sentinels, master = sys.argv[1:4]
limit, pause = 0.5, 0.01
hosts = [(a.rsplit(":", 1)[0], int(a.rsplit(":", 1)[1])) for a in sentinels.split(",")]
client = Sentinel(hosts, socket_timeout=limit, socket_connect_timeout=limit).master_for(
    master, socket_timeout=limit, socket_connect_timeout=limit
)
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
at, n = "", 0
while not ended.is_set():
    n += 1
    key = f"{name}:{n}"
    sent = time.time_ns() // 1000
    try:
        client.set(key, n)
        what, text = "ok", ""
    except (redis.RedisError, OSError) as e:
        what, text = "no", str(e).replace("\n", " ")
    now = time.time_ns() // 1000
    pool = client.connection_pool
    if getattr(pool, "master_address", None):
        at = f"{pool.master_address[0]}:{pool.master_address[1]}"
    print(what, key, sent, now, at or "-", text, flush=True)
    time.sleep(pause)
