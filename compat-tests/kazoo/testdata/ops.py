"""Every call of Kazoo's client. usage: ops.py SERVER.

Prints "ok NAME" for each check and ends with an error at the first that fails.
"""
import subprocess
import sys
import threading
import time

from kazoo.client import KazooClient, TransactionRequest
from kazoo.exceptions import (
    AuthFailedError, BadArgumentsError, BadVersionError, InvalidACLError, NoAuthError, NoChildrenForEphemeralsError,
    NodeExistsError, NoNodeError, NotEmptyError, RolledBackError, RuntimeInconsistency,
)
from kazoo.protocol.states import EventType
from kazoo.security import OPEN_ACL_UNSAFE, make_acl, make_digest_acl, make_digest_acl_credential

WAIT_SECONDS = 60
server = sys.argv[1]


def connect(**options):
    client = KazooClient(hosts=server, timeout=30, **options)
    client.start(timeout=WAIT_SECONDS)
    return client


def check(name, condition, detail=""):
    if not condition:
        raise AssertionError(f"{name}: {detail}")
    print("ok", name, flush=True)


def fails(name, error, call, *args, **options):
    try:
        result = call(*args, **options)
    except error:
        print("ok", name, flush=True)
        return
    raise AssertionError(f"{name}: returned {result!r}, want {error.__name__}")


def creates(zk):
    check("create", zk.create("/c", b"data") == "/c")
    fails("create again", NodeExistsError, zk.create, "/c", b"data")
    path, stat = zk.create("/c/2", b"22", include_data=True)
    check("create2", path == "/c/2" and stat.dataLength == 2 and stat.version == 0, stat)
    check("sequence", zk.create("/c/s-", sequence=True) == "/c/s-0000000001")
    check("ephemeral", zk.create("/c/e", ephemeral=True) == "/c/e")
    check("ephemeral sequence", zk.create("/c/es-", ephemeral=True, sequence=True) == "/c/es-0000000003")
    check("owner", zk.exists("/c/e").ephemeralOwner == zk.client_id[0])
    fails("no children for ephemerals", NoChildrenForEphemeralsError, zk.create, "/c/e/x")
    fails("no parent", NoNodeError, zk.create, "/none/x")
    check("makepath", zk.create("/deep/er/still", makepath=True) == "/deep/er/still")
    fails("invalid acl", InvalidACLError, zk.create, "/bad", acl=[make_acl("nonsense", "x", all=True)])
    check("unicode", zk.create("/c/\u00e4\u4e2d") == "/c/\u00e4\u4e2d")
    check("large", zk.create("/c/large", b"x" * 1_000_000) == "/c/large" and len(zk.get("/c/large")[0]) == 1_000_000)
    check("ensure_path", zk.ensure_path("/ensured/x"))


def reads(zk):
    data, stat = zk.get("/c")
    check("get", data == b"data" and stat.version == 0 and stat.numChildren == 6 and stat.cversion == 6, stat)
    check("times",
        abs(stat.created - time.time()) < 600 and stat.creation_transaction_id == stat.last_modified_transaction_id)
    fails("get missing", NoNodeError, zk.get, "/none")
    check("exists missing", zk.exists("/none") is None)
    names = ["2", "e", "es-0000000003", "large", "s-0000000001", "\u00e4\u4e2d"]
    check("children", sorted(zk.get_children("/c")) == names, zk.get_children("/c"))
    children, stat = zk.get_children("/c", include_data=True)
    check("children2", sorted(children) == names and stat.numChildren == len(names))
    check("sync", zk.sync("/c") == "/c")
    check("version", zk.server_version()[:2] >= (3, 5), zk.server_version())
    check("command", zk.command(b"ruok") == "imok")


def changes(zk):
    stat = zk.set("/c", b"new", version=0)
    check("set", stat.version == 1 and stat.dataLength == 3)
    fails("set wrong version", BadVersionError, zk.set, "/c", b"x", version=0)
    fails("set missing", NoNodeError, zk.set, "/none", b"x")
    check("set nothing", zk.set("/c", None).dataLength == 0 and zk.get("/c")[0] is None)
    fails("delete not empty", NotEmptyError, zk.delete, "/c")
    fails("delete wrong version", BadVersionError, zk.delete, "/c/2", version=5)
    fails("delete missing", NoNodeError, zk.delete, "/none")
    fails("delete root", BadArgumentsError, zk.delete, "/")
    check("delete", zk.delete("/c/2", version=0))
    zk.delete("/deep", recursive=True)
    check("delete recursive", zk.exists("/deep") is None)


def transactions(zk):
    t = zk.transaction()
    t.check("/c", version=2)
    t.create("/t", b"1")
    t.create("/t/s-", ephemeral=True, sequence=True)
    t.set_data("/c", b"t", version=2)
    t.delete("/t/s-0000000000")
    results = t.commit()
    check("transaction", results[1:3] == ["/t", "/t/s-0000000000"] and results[0] is True and results[3].version == 3,
        results)
    t = zk.transaction()
    t.create("/t/1")
    t.check("/c", version=99)
    t.create("/t/2")
    results = t.commit()
    kinds = [type(r) for r in results]
    check("rolled back", kinds == [RolledBackError, BadVersionError, RuntimeInconsistency], results)
    check("nothing of it", zk.get_children("/t") == [])
    check("request", isinstance(t, TransactionRequest))


def access(zk):
    other = connect()
    acl = make_digest_acl("ann", "secret", all=True)
    zk.create("/acl", b"hidden", acl=[acl])
    fails("denied", NoAuthError, other.get, "/acl")
    fails("denied acl", NoAuthError, other.get_acls, "/acl")
    other.add_auth("digest", "ann:secret")
    check("allowed", other.get("/acl")[0] == b"hidden")
    got, stat = other.get_acls("/acl")
    check("get_acls", got[0].id.id == make_digest_acl_credential("ann", "secret") and stat.aversion == 0, got)
    check("set_acls", other.set_acls("/acl", OPEN_ACL_UNSAFE, version=0).aversion == 1)
    fails("set_acls wrong version", BadVersionError, other.set_acls, "/acl", OPEN_ACL_UNSAFE, version=0)
    fails("failed authentication", AuthFailedError, other.add_auth, "nonsense", "x")
    other.stop()
    other.close()


def watches(zk):
    events = []
    arrived = threading.Condition()

    def watch(event):
        with arrived:
            events.append((event.type, event.path))
            arrived.notify_all()

    def expect(name, *wanted):
        with arrived:
            arrived.wait_for(lambda: len(events) >= len(wanted), WAIT_SECONDS)
            check(name, events == list(wanted), events)
            events.clear()

    zk.exists("/w", watch=watch)
    zk.create("/w")
    expect("created", (EventType.CREATED, "/w"))
    zk.get("/w", watch=watch)
    zk.set("/w", b"x")
    expect("changed", (EventType.CHANGED, "/w"))
    zk.get_children("/w", watch=watch)
    zk.create("/w/c")
    expect("child", (EventType.CHILD, "/w"))
    zk.get("/w/c", watch=watch)
    zk.delete("/w/c")
    expect("deleted", (EventType.DELETED, "/w/c"))
    zk.set("/w", b"y")
    zk.sync("/w")
    expect("once only")


def asynchronous(zk):
    zk.create("/a")
    pending = [zk.create_async("/a/n-", sequence=True) for _ in range(500)]
    check("500 in flight", [p.get(timeout=WAIT_SECONDS) for p in pending] == [f"/a/n-{i:010d}" for i in range(500)])
    answers = [
        zk.exists_async("/a"), zk.get_async("/a"), zk.get_children_async("/a"), zk.set_async("/a",
            b"x"), zk.sync_async("/a"),
        zk.get_acls_async("/a"), zk.set_acls_async("/a", OPEN_ACL_UNSAFE), zk.ensure_path_async("/a/b"),
        zk.delete_async("/a/n-0000000000"),
    ]
    for answer in answers:
        answer.get(timeout=WAIT_SECONDS)
    check("every call in flight", all(a.successful() for a in answers))
    zk.delete("/a", recursive=True)


def sessions(zk):
    # A process that ends without closing its session leaves it to whoever has its id and password.
    code = (
        "import os, sys; from kazoo.client import KazooClient;"
        "c = KazooClient(hosts=sys.argv[1], timeout=30); c.start();"
        "c.create('/session', ephemeral=True); print(c.client_id[0], c.client_id[1].hex(), flush=True); os._exit(0)"
    )
    left = subprocess.run([sys.executable, "-c", code, server], capture_output=True, text=True, timeout=WAIT_SECONDS,
        check=True)
    number, password = left.stdout.split()
    taken = KazooClient(hosts=server, client_id=(int(number), bytes.fromhex(password)), timeout=30)
    taken.start(timeout=WAIT_SECONDS)
    check("taken over", taken.client_id[0] == int(number) and taken.exists("/session") is not None, taken.client_id)
    taken.stop()
    taken.close()
    check("closed with its ephemeral", zk.exists("/session") is None)
    nobody = KazooClient(hosts=server, client_id=(int(number), bytes.fromhex(password)), timeout=30)
    nobody.start(timeout=WAIT_SECONDS)
    check("a session that is gone is replaced", nobody.client_id[0] != int(number), nobody.client_id)
    nobody.stop()
    nobody.close()
    brief = connect()
    brief.create("/brief", ephemeral=True)
    brief.restart()
    check("restart ends the session", brief.exists("/brief") is None)
    brief.stop()
    brief.close()


def chroot(zk):
    zk.ensure_path("/root")
    below = KazooClient(hosts=server + "/root", timeout=30)
    below.start(timeout=WAIT_SECONDS)
    check("chroot create", below.create("/x") == "/x" and zk.exists("/root/x") is not None)
    check("chroot children", below.get_children("/") == ["x"])
    below.stop()
    below.close()


client = connect()
for part in (creates, reads, changes, transactions, access, watches, asynchronous, sessions, chroot):
    part(client)
client.stop()
client.close()
print("ok end")
