"""usage: lock.py SERVER ZKD FOLDER

Kazoo's Lock and Election beside zkd cli lock and elect: whoever is in makes a folder, which fails if somebody else is in.
Prints "ok NAME" for each that has had its turns.
"""

import os
import subprocess
import sys
import threading

from kazoo.client import KazooClient

TURNS = 6
server, zkd, folder = sys.argv[1:]
failures = []


def alone(name):
    """Is in, alone."""
    inside = os.path.join(folder, name)
    os.mkdir(inside)
    os.rmdir(inside)


def kazoo(recipe, name):
    client = KazooClient(hosts=server)
    client.start()
    try:
        for _ in range(TURNS):
            recipe(client, "/" + name, lambda: alone(name))
        print("ok kazoo", name)
    except Exception as e:  # shown in the end
        failures.append(f"kazoo {name}: {e!r}")
    finally:
        client.stop()
        client.close()


def shell(command, name):
    for _ in range(TURNS):
        done = subprocess.run(
            [zkd, "cli", "-q", "-server", server, command, "/" + name, "--", "sh", "-c", 'mkdir "$0" && rmdir "$0"',
             os.path.join(folder, name)], capture_output=True, text=True)
        if done.returncode != 0:
            failures.append(f"{command} {name}: status {done.returncode}: {done.stderr}")
            return
    print("ok shell", name)


def lock(client, path, turn):
    with client.Lock(path, "kazoo"):
        turn()


def elect(client, path, turn):
    client.Election(path, "kazoo").run(turn)


threads = []
for recipe, command, name in ((lock, "lock", "mutex"), (elect, "elect", "leader")):
    for _ in range(2):
        threads.append(threading.Thread(target=kazoo, args=(recipe, name)))
        threads.append(threading.Thread(target=shell, args=(command, name)))
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for failure in failures:
    print("FAIL", failure)
sys.exit(1 if failures else 0)
