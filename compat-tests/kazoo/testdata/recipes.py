"""Every recipe of Kazoo. usage: recipes.py SERVER.

Prints "ok NAME" for each check and ends with an error at the first that fails.
"""
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout
from kazoo.recipe.cache import TreeCache, TreeEvent
from kazoo.recipe.partitioner import SetPartitioner
from kazoo.recipe.watchers import PatientChildrenWatch

WAIT_SECONDS = 60
server = sys.argv[1]


def connect():
    client = KazooClient(hosts=server, timeout=30)
    client.start(timeout=WAIT_SECONDS)
    return client


def check(name, condition, detail=""):
    if not condition:
        raise AssertionError(f"{name}: {detail}")
    print("ok", name, flush=True)


class Seen:
    """A list that other threads append to, and a wait for what it must hold."""

    def __init__(self):
        self.items = []
        self.changed = threading.Condition()

    def add(self, item):
        with self.changed:
            self.items.append(item)
            self.changed.notify_all()

    def expect(self, name, condition):
        with self.changed:
            held = self.changed.wait_for(lambda: condition(self.items), WAIT_SECONDS)
            check(name, held, self.items)


def together(count, body):
    """Runs body(client, number) in as many threads, each with a client of its own.

    Passes on what they raise, and raises if one has not ended after WAIT_SECONDS.
    """
    errors = []

    def run(number):
        client = connect()
        try:
            body(client, number)
        except BaseException as error:  # shown below
            errors.append(error)
        finally:
            client.stop()
            client.close()

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(count)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + WAIT_SECONDS
    for thread in threads:
        thread.join(max(0, deadline - time.monotonic()))
    if errors:
        raise errors[0]
    stuck = [number for number, thread in enumerate(threads) if thread.is_alive()]
    if stuck:
        raise AssertionError(f"{body.__name__}: still running: {stuck}")


def locks(a, b):
    inside, turns = [], []

    def take_turns(client, number):
        lock = client.Lock("/lock", f"client {number}")
        for _ in range(5):
            with lock:
                inside.append(number)
                assert inside == [number], inside
                turns.append(number)
                inside.remove(number)

    together(4, take_turns)
    check("lock", len(turns) == 20)
    first, second = a.Lock("/lock2", "first"), b.Lock("/lock2", "second")
    first.acquire()
    check("lock held", not second.acquire(blocking=False) and b.Lock("/lock2").contenders() == ["first"])
    try:
        second.acquire(timeout=0.2)
        check("lock timeout", False)
    except LockTimeout:
        print("ok lock timeout")
    first.release()
    check("lock passed on", second.acquire(timeout=WAIT_SECONDS))
    second.release()
    read, write = a.ReadLock("/rw"), b.WriteLock("/rw")
    read.acquire()
    check("read lock shared", b.ReadLock("/rw").acquire(timeout=WAIT_SECONDS))
    check("write lock exclusive", not write.acquire(blocking=False))
    read.release()
    one, two, three = (c.Semaphore("/semaphore", max_leases=2) for c in (a, b, a))
    check("semaphore", one.acquire() and two.acquire() and not three.acquire(blocking=False))
    check("lease holders", len(one.lease_holders()) == 2)
    one.release()
    check("semaphore passed on", three.acquire(timeout=WAIT_SECONDS))
    two.release()
    three.release()


def election(a, b):
    led = Seen()
    hold = threading.Event()

    def lead(name):
        led.add(name)
        hold.wait(WAIT_SECONDS)

    elections = [a.Election("/election", "a"), b.Election("/election", "b")]
    threads = [threading.Thread(target=e.run, args=(lead, n)) for e, n in zip(elections, "ab")]
    threads[0].start()
    led.expect("elected", lambda items: items == ["a"])
    threads[1].start()
    with led.changed:
        led.changed.wait_for(lambda: elections[0].contenders() == ["a", "b"], 1)
    check("one leader", led.items == ["a"])
    hold.set()
    led.expect("succeeded", lambda items: items == ["a", "b"])
    for thread in threads:
        thread.join(WAIT_SECONDS)


def queues(a, b):
    queue = a.Queue("/queue")
    for item, priority in ((b"later", 200), (b"first", 50), (b"second", 100)):
        queue.put(item, priority)
    other = b.Queue("/queue")
    check("queue", len(other) == 3 and [other.get() for _ in range(4)] == [b"first", b"second", b"later", None])
    locking = a.LockingQueue("/locking")
    locking.put_all([b"x", b"y"])
    check("locking queue", locking.get(timeout=WAIT_SECONDS) == b"x" and locking.holds_lock())
    check("the other one gets the next", b.LockingQueue("/locking").get(timeout=WAIT_SECONDS) == b"y")
    check("consume", locking.consume())


def barriers(a, b):
    barrier = a.Barrier("/barrier")
    barrier.create()
    check("barrier holds", not b.Barrier("/barrier").wait(0.2))
    threading.Timer(0.2, barrier.remove).start()
    check("barrier opens", b.Barrier("/barrier").wait(WAIT_SECONDS))
    entered = []
    # Kazoo's enter looks for "ready" and then counts. If another one has left in between, and with that deleted "ready"
    # and its own znode, it waits for good, with any server.
    none_leaves_yet = threading.Barrier(3, timeout=WAIT_SECONDS)

    def enter(client, number):
        double = client.DoubleBarrier("/double", 3)
        entered.append(number)
        double.enter()
        assert len(entered) == 3, entered
        none_leaves_yet.wait()
        double.leave()

    together(3, enter)
    check("double barrier", len(entered) == 3)


def counters(a, b):
    def count(client, _):
        counter = client.Counter("/counter")
        for _ in range(10):
            counter += 1

    together(3, count)
    check("counter", a.Counter("/counter").value == 30)
    decimal = b.Counter("/float", default=1.5)
    decimal -= 0.5
    check("float counter", a.Counter("/float", default=1.5).value == 1.0)


def watchers(a, b):
    data, children, patient = Seen(), Seen(), Seen()
    a.DataWatch("/watched", lambda value, stat, event: data.add((value, event.type if event else None)))
    data.expect("data watch of nothing", lambda items: items == [(None, None)])
    b.create("/watched", b"1")
    data.expect("data watch created", lambda items: items[-1] == (b"1", "CREATED"))
    a.ChildrenWatch("/watched", lambda names: children.add(sorted(names)))
    children.expect("children watch", lambda items: items == [[]])
    for value in (b"2", b"3", b"4"):
        b.set("/watched", value)
        data.expect("data watch " + value.decode(), lambda items, v=value: items[-1] == (v, "CHANGED"))
    for name in "xyz":
        b.create("/watched/" + name)
    children.expect("children watch added", lambda items: items[-1] == ["x", "y", "z"])
    result = PatientChildrenWatch(a, "/watched", time_boundary=0.1).start()
    patient.add(sorted(result.get(timeout=WAIT_SECONDS)[0]))
    patient.expect("patient children watch", lambda items: items == [["x", "y", "z"]])
    b.delete("/watched", recursive=True)
    data.expect("data watch deleted", lambda items: items[-1] == (None, "DELETED"))


def caches(a, b):
    events = Seen()
    b.ensure_path("/cache/a/b")
    cache = TreeCache(a, "/cache")
    cache.listen(lambda event: events.add((event.event_type, event.event_data.path if event.event_data else None)))
    cache.start()
    events.expect("tree cache", lambda items: (TreeEvent.INITIALIZED, None) in items)
    check("tree cache children", cache.get_children("/cache/a") == {"b"})
    b.set("/cache/a/b", b"new")
    events.expect("tree cache updated", lambda items: (TreeEvent.NODE_UPDATED, "/cache/a/b") in items)
    check("tree cache data", cache.get_data("/cache/a/b").data == b"new")
    b.delete("/cache/a", recursive=True)
    events.expect("tree cache removed", lambda items: (TreeEvent.NODE_REMOVED, "/cache/a") in items)
    cache.close()


def parties(a, b):
    one, two = a.Party("/party", "one"), b.Party("/party", "two")
    one.join()
    two.join()
    check("party", sorted(one) == ["one", "two"] and len(two) == 2)
    two.leave()
    check("party left", list(one) == ["one"])
    shallow = b.ShallowParty("/shallow", "three")
    shallow.join()
    check("shallow party", list(a.ShallowParty("/shallow")) == ["three"])


def partitions(a, b):
    partitions = [
        SetPartitioner(c, "/partitions", set=(1, 2, 3, 4), time_boundary=0.5, identifier=n) for c, n in ((a, "a"), (b,
            "b"))
    ]
    for p in partitions:
        p.wait_for_acquire(WAIT_SECONDS)
    check("partitions", sorted(x for p in partitions for x in p) == [1, 2, 3, 4], [list(p) for p in partitions])
    for p in partitions:
        p.finish()


def leases(a, b):
    from datetime import timedelta

    check("lease", bool(a.NonBlockingLease("/lease", timedelta(seconds=60), "a")))
    check("lease taken", not b.NonBlockingLease("/lease", timedelta(seconds=60), "b"))
    check("multi lease", bool(a.MultiNonBlockingLease(2, "/leases", timedelta(seconds=60), "a")))


clients = connect(), connect()
for part in (locks, election, queues, barriers, counters, watchers, caches, parties, partitions, leases):
    part(*clients)
for client in clients:
    client.stop()
    client.close()
print("ok end")
