"""usage: election.py SERVERS SECONDS. Kazoo's Election by four clients while servers are killed.

Never two lead at one time; somebody leads again after each kill; everybody leads at least once.
"""
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.retry import KazooRetry

CLIENTS = 4
WAIT_SECONDS = 40

hosts, seconds = sys.argv[1], float(sys.argv[2])
mutex = threading.Lock()
leading = 0
wrong = []
terms = [0] * CLIENTS
last = time.monotonic()
end = last + seconds


def lead(number):
    """One term: nobody else may lead meanwhile."""
    global leading, last
    with mutex:
        leading += 1
        if leading != 1:
            wrong.append("%d leaders at once" % leading)
        now = time.monotonic()
        if now - last > WAIT_SECONDS:
            wrong.append("nobody led for %.1f s" % (now - last))
        last = now
    time.sleep(0.005)
    with mutex:
        leading -= 1
        terms[number] += 1


def run(number):
    retry = KazooRetry(max_tries=-1, delay=0.05, max_delay=0.5)
    client = KazooClient(hosts, timeout=30, connection_retry=retry)
    client.start(timeout=WAIT_SECONDS)
    try:
        election = client.Election("/ensemble/election", "client%d" % number)
        late = end + WAIT_SECONDS
        while time.monotonic() < end or (terms[number] == 0 and time.monotonic() < late):
            try:
                election.run(lead, number)
            except KazooException:
                time.sleep(0.05)  # as a user would: try again
    finally:
        client.stop()
        client.close()


threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(CLIENTS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(seconds + 3 * WAIT_SECONDS)
    if thread.is_alive():
        wrong.append("a client never ended")
if min(terms) == 0:
    wrong.append("a client never led: %s" % terms)
if wrong:
    sys.exit("\n".join(wrong[:10]))
print("terms of each client: %s" % terms)
