package compat;

import static compat.Main.bytes;
import static compat.Recorder.OPEN;
import static compat.Recorder.call;

import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.Watcher.WatcherType;
import org.apache.zookeeper.ZooKeeper;

/** One-shot, persistent and recursive watches, their removal, and what a broken connection has them catch up with. */
final class Watches {
    private Watches() {}

    static void run() throws Exception {
        try (ZooKeeper zk = Main.connect(Main.server)) {
            Recorder.title("one-shot watches");
            oneShot(zk);
            Recorder.title("persistent watches");
            persistent(zk);
            Recorder.title("removal");
            removal(zk);
            Recorder.title("setWatches after a broken connection");
            reconnect(zk, false);
            Recorder.title("setWatches2 after a broken connection");
            reconnect(zk, true);
        }
    }

    private static void oneShot(ZooKeeper zk) throws Exception {
        Recorder.Events data = new Recorder.Events("data");
        Recorder.Events children = new Recorder.Events("children");
        Recorder.Events exists = new Recorder.Events("exists");
        call("exists on what is not there", () -> zk.exists("/w", exists));
        create(zk, "/w");
        exists.next();
        zk.exists("/w", exists);
        zk.getData("/w", data, null);
        zk.getChildren("/w", children);
        zk.setData("/w", bytes("1"), -1);
        exists.next();
        data.next();
        zk.setData("/w", bytes("2"), -1);
        create(zk, "/w/c");
        children.next();
        zk.getChildren("/w", children);
        zk.setData("/w/c", bytes("x"), -1);
        zk.setACL("/w", OPEN, -1);
        data.none();
        exists.none();
        children.none();
        zk.delete("/w/c", -1);
        children.next();
        zk.getData("/w", data, null);
        zk.getChildren("/w", children);
        zk.exists("/w", exists);
        zk.delete("/w", -1);
        data.next();
        children.next();
        exists.next();
        call("getData of a missing node sets no watch", () -> zk.getData("/w", data, null));
        create(zk, "/w");
        zk.exists("/w", false);
        data.none();
        zk.delete("/w", -1);
    }

    private static void persistent(ZooKeeper zk) throws Exception {
        Recorder.Events one = new Recorder.Events("persistent");
        Recorder.Events tree = new Recorder.Events("recursive");
        zk.addWatch("/pw", one, AddWatchMode.PERSISTENT);
        zk.addWatch("/pw", tree, AddWatchMode.PERSISTENT_RECURSIVE);
        create(zk, "/pw");
        create(zk, "/pw/a");
        create(zk, "/pw/a/b");
        zk.setData("/pw/a/b", bytes("x"), -1);
        zk.setData("/pw", bytes("x"), -1);
        zk.delete("/pw/a/b", -1);
        zk.delete("/pw/a", -1);
        zk.delete("/pw", -1);
        create(zk, "/pw");
        zk.exists("/pw", false);
        for (int i = 0; i < 6; i++) {
            one.next();
        }
        for (int i = 0; i < 9; i++) {
            tree.next();
        }
        one.none();
        tree.none();
        zk.delete("/pw", -1);
    }

    private static void removal(ZooKeeper zk) throws Exception {
        Recorder.Events events = new Recorder.Events("removed");
        create(zk, "/r");
        call("remove what was never set", () -> remove(zk, "/r", events, WatcherType.Any));
        for (WatcherType type : new WatcherType[] {WatcherType.Data, WatcherType.Children, WatcherType.Any}) {
            zk.getData("/r", events, null);
            zk.getChildren("/r", events);
            call("remove " + type, () -> remove(zk, "/r", events, type));
            call("remove again " + type, () -> remove(zk, "/r", events, type));
            events.nextSorted(type == WatcherType.Any ? 2 : 1);
        }
        zk.exists("/r/later", events);
        call("remove a watch on what is not there", () -> remove(zk, "/r/later", events, WatcherType.Data));
        events.next();
        for (AddWatchMode mode : AddWatchMode.values()) {
            zk.addWatch("/r", events, mode);
            call("removeAll of " + mode, () -> {
                zk.removeAllWatches("/r", WatcherType.Any, false);
                return "removed";
            });
            events.next();
            zk.setData("/r", null, -1);
        }
        call("removeAll of nothing", () -> {
            zk.removeAllWatches("/r", WatcherType.Any, false);
            return "removed";
        });
        events.none();
        zk.delete("/r", -1);
    }

    /** Sets watches through the proxy, cuts it, makes changes while the client is away, shows what it is told. */
    private static void reconnect(ZooKeeper other, boolean withPersistent) throws Exception {
        for (String node : new String[] {"/c", "/c/data", "/c/gone", "/c/kids", "/c/same"}) {
            create(other, node);
        }
        Recorder.Events session = new Recorder.Events("session");
        Recorder.Events events = new Recorder.Events("missed");
        Recorder.Events later = new Recorder.Events("later");
        try (ZooKeeper zk = Main.connect(Main.proxy, session)) {
            zk.getData("/c/data", events, null);
            zk.getData("/c/gone", events, null);
            zk.getChildren("/c/kids", events);
            zk.exists("/c/new", events);
            zk.getData("/c/same", later, null);
            zk.exists("/c/never", later);
            if (withPersistent) {
                zk.addWatch("/c/tree", later, AddWatchMode.PERSISTENT_RECURSIVE);
                zk.addWatch("/c/persistent", later, AddWatchMode.PERSISTENT);
            }
            // What changes while nobody listens: the cut comes first, then one transaction, which the client cannot
            // overtake for it waits a moment before it connects again. Either way the same events arrive, once.
            Main.cutConnections();
            other.transaction().setData("/c/data", bytes("x"), -1).delete("/c/gone", -1)
                .create("/c/kids/k", null, OPEN, CreateMode.PERSISTENT)
                .create("/c/new", null, OPEN, CreateMode.PERSISTENT).commit();
            session.await(KeeperState.Disconnected);
            session.await(KeeperState.SyncConnected);
            events.nodeEventsSorted(4);
            zk.sync("/", (rc, path, ctx) -> { }, null);
            zk.exists("/c", false);
            other.setData("/c/same", bytes("x"), -1);
            create(other, "/c/never");
            if (withPersistent) {
                create(other, "/c/tree");
                create(other, "/c/tree/x");
                create(other, "/c/persistent");
                other.setData("/c/persistent", null, -1);
            }
            later.nodeEventsSorted(withPersistent ? 6 : 2);
        }
        org.apache.zookeeper.ZKUtil.deleteRecursive(other, "/c", 100);
    }

    private static void create(ZooKeeper zk, String path) throws Exception {
        zk.create(path, null, OPEN, CreateMode.PERSISTENT);
    }

    private static String remove(ZooKeeper zk, String path, Watcher watcher, WatcherType type) throws Exception {
        zk.removeWatches(path, watcher, type, false);
        return "removed";
    }
}
