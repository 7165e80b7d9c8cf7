"""Logs in with Kazoo, and prints what each login may do."""

import logging
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss, SessionClosedRequireSaslError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry
from kazoo.security import ACL, Id, Permissions

logging.disable(logging.CRITICAL)

# Which call of a refused client fails, and with which one, depends on how far the client is: start returns if it is
# looked at before the refusal has come.
REFUSED = (KazooTimeoutError, AuthFailedError, ConnectionClosedError, ConnectionLoss, SessionClosedRequireSaslError)

DIGEST = [
    ("bob", 'bob "secret"'),
    ("root", "rootsecret"),
    ("bob", "wrong"),
    ("nobody", "x"),
    (None, None),
]


def call(name, body):
    try:
        shown = body()
    except REFUSED:
        raise
    except Exception as e:  # its name is what counts
        shown = type(e).__name__
    return f"{name}: {shown}"


def login(address, title, options):
    print(f"## Kazoo, login {title}")
    retry = KazooRetry(max_tries=0)
    client = KazooClient(address, timeout=40, sasl_options=options, connection_retry=retry, command_retry=retry,
                         **tls)
    owner = [ACL(Permissions.ALL, Id("auth", ""))]
    path = f"/kazoo-{title}"
    try:
        lines = [
            call("start", lambda: client.start(timeout=60)),
            call("create", lambda: client.create(path, b"", acl=owner)),
            call("get_acls", lambda: [f"{a.id.scheme}:{a.id.id}" for a in client.get_acls(path)[0]]),
            call("read of bob", lambda: client.get("/kazoo-bob")[0]),
        ]
    except REFUSED:
        lines = ["refused"]
    print(*lines, sep="\n", flush=True)
    client.stop()
    client.close()


mechanism, *addresses = sys.argv[1:]
tls = {}
if addresses[0].startswith("ca="):
    tls = dict(use_ssl=True, ca=addresses.pop(0)[len("ca="):], verify_certs=True)
for address in addresses:
    print("# server", "as it is" if address == addresses[0] else "that demands SASL")
    if mechanism == "GSSAPI":
        login(address, "by ticket", {"mechanism": "GSSAPI"})
        continue
    for user, password in DIGEST:
        options = {"mechanism": "DIGEST-MD5", "username": user, "password": password} if user else None
        login(address, user, options)
