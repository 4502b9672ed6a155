"""Asks electors, as redis-py asks Sentinels; ends with an error if an answer is not what a healthy system has."""
import sys

import redis
from redis.sentinel import Sentinel

hosts = [(a.rsplit(":", 1)[0], int(a.rsplit(":", 1)[1])) for a in sys.argv[1].split(",")]
name, nodes = sys.argv[2], int(sys.argv[3])
all = Sentinel(hosts, socket_timeout=2, min_other_sentinels=nodes - 1)
master, replicas = all.discover_master(name), all.discover_slaves(name)
assert len(replicas) == nodes - 1 and master not in replicas, (master, replicas)
assert all.master_for(name, socket_timeout=2, decode_responses=True).role()[0] == "master"
assert all.slave_for(name, socket_timeout=2, decode_responses=True).role()[0] == "slave"
for host, port in hosts:
    c = redis.Redis(host, port, socket_timeout=5, decode_responses=True)
    assert c.sentinel_get_master_addr_by_name(name) == master
    state = c.sentinel_master(name)
    assert state["is_master"] and not state["is_sdown"] and state["num-slaves"] == nodes - 1, state
    assert list(c.sentinel_masters()) == [name]
    assert len(c.sentinel_sentinels(name)) == nodes - 1
    assert not any(s["is_sdown"] for s in c.sentinel_slaves(name))
    assert c.sentinel_ckquorum(name)
    assert c.info("sentinel")["master0"]["status"] == "ok"
    assert c.ping() and c.role()[0] == "sentinel"
