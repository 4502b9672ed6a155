"""Says who leads, and each change: follow.py URL NAME"""
import json, sys, urllib.request

with urllib.request.urlopen(f"{sys.argv[1]}/v1/elections/{sys.argv[2]}/watch") as events:
    for line in events:
        if line.startswith(b"data: "):
            state = json.loads(line[6:])
            leader = None if state["stale"] else state["leader"]
            print(f"{leader['id']} {leader['token']}" if leader else "nobody", flush=True)
