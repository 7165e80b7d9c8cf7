"""Holds one session while the server behind its address is replaced, as src/Holder.java does.

For each line on its input it asks for its ephemeral znode, again until the server is there, and prints the session and
what has become of it.
"""
import sys
import threading

from kazoo.client import KazooClient
from kazoo.retry import KazooRetry

TIMEOUT_SECONDS = 120
WITHIN_SECONDS = 120


def again(deadline=None):
    """A policy that asks often."""
    return KazooRetry(max_tries=-1, delay=0.1, backoff=1, max_jitter=0.1, deadline=deadline)


def say(zk):
    """Prints the session, its password, and whether the ephemeral is its own."""
    stat = again(WITHIN_SECONDS)(zk.exists, "/holder")
    session, password = zk.client_id
    print(f"{session:x} {password.hex()} {stat is not None and stat.owner_session_id == session}".lower(), flush=True)


def main(addr):
    told = threading.Event()
    zk = KazooClient(hosts=addr, timeout=TIMEOUT_SECONDS, connection_retry=again())
    zk.start(timeout=WITHIN_SECONDS)
    zk.create("/holder", b"\1", ephemeral=True)
    zk.create("/watched", b"")
    zk.DataWatch("/watched", lambda data, stat: told.set() if data == b"\2" else None)
    say(zk)
    for line in sys.stdin:
        if line.strip() == "end":
            break
        say(zk)
    zk.set("/watched", b"\2", version=0)
    print("the watch is told:", str(told.wait(WITHIN_SECONDS)).lower(), flush=True)
    zk.stop()


main(sys.argv[1])
