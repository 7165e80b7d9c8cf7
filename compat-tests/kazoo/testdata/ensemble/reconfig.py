"""Kazoo's reconfig. usage: reconfig.py SERVER CREDENTIALS LINE_OF_3 LINE_OF_4

Prints what each call answers. Server 4 is down.
"""
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

hosts, credentials, three, four = sys.argv[1:]
moved = four.rsplit(":", 1)[0] + ":1"


def reconfig(client, **arguments):
    try:
        data, stat = client.reconfig(**dict({"joining": None, "leaving": None, "new_members": None}, **arguments))
    except KazooException as e:
        print(f"{sorted(arguments)}: {type(e).__name__}", flush=True)
        return None
    read, read_stat = client.get("/zookeeper/config")
    print(f"{sorted(arguments)}: {data.decode()}\nversion {stat.version}, "
          f"length {stat.dataLength == len(data)}, as read {data == read and stat == read_stat}", flush=True)
    return int(data.decode().rsplit("=", 1)[1], 16)


stranger = KazooClient(hosts=hosts, timeout=30)
stranger.start(timeout=60)
reconfig(stranger, joining=four)
reconfig(stranger, joining="server.4=")
stranger.stop()

client = KazooClient(hosts=hosts, timeout=30, auth_data=[("digest", credentials)])
client.start(timeout=60)
version = reconfig(client, joining=four)
reconfig(client, joining=moved, from_config=version)
reconfig(client, joining=four, from_config=version)
reconfig(client, leaving="4,9")
reconfig(client, leaving="x")
reconfig(client, joining="server.4=127.0.0.1:1:2:observer")
reconfig(client, joining="server.4=127.0.0.1:1:1:observer;3")
reconfig(client, joining="server.4=127.0.0.1:1:2:guest;3")
reconfig(client, joining=four, leaving="4")
reconfig(client, joining=three, leaving="4")
reconfig(client, new_members="server.1=127.0.0.1:1:2;3")
reconfig(client)
print(client.get_children("/zookeeper"))
client.stop()
