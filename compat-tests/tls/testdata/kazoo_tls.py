"""Kazoo over TLS: who it is, a large node, and what is refused. Arguments: address, key and certificate, trust."""
import sys

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import make_acl

addr, own, trust = sys.argv[1:4]


def client(**options):
    return KazooClient(hosts=addr, use_ssl=True, timeout=40, **options)


zk = client(certfile=own, keyfile=own, ca=trust, verify_certs=True)
zk.start(timeout=60)
acl = make_acl("auth", "", all=True)
zk.create("/kazoo", b"x", acl=[acl])
zk.create("/large", b"y" * 100000)
acls, _ = zk.get_acls("/kazoo")
data, _ = zk.get("/kazoo")
large, _ = zk.get("/large")
print("%s:%s %s %d" % (acls[0].id.scheme, acls[0].id.id, data.decode(), len(large)))
zk.stop()
zk.close()

for name, options in (
    ("without a certificate", dict(ca=trust, verify_certs=True)),
    ("with another authority", dict(certfile=own, keyfile=own, ca=own, verify_certs=True)),
):
    zk = client(connection_retry=dict(max_tries=0), **options)
    try:
        zk.start(timeout=3)
        print("served " + name)
    except KazooTimeoutError:
        print("refused " + name)
    zk.stop()
    zk.close()
