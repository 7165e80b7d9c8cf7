package compat;

import static compat.Recorder.OPEN;
import static compat.Recorder.call;

import java.util.List;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** Containers and nodes with a TTL, to their end: the server looks for them twice a second in this test. */
final class Expiring {
    private Expiring() {}

    static void run() throws Exception {
        Recorder.title("containers and TTLs");
        try (ZooKeeper zk = Main.connect(Main.server)) {
            Recorder.Events events = new Recorder.Events("expired");
            zk.create("/box", null, OPEN, CreateMode.CONTAINER);
            zk.create("/box/last", null, OPEN, CreateMode.PERSISTENT);
            zk.create("/kept", null, OPEN, CreateMode.CONTAINER);
            zk.exists("/box", events);
            zk.delete("/box/last", -1);
            events.next();
            call("a container that never had a child stays", () -> zk.exists("/kept", false));
            shortLived(zk, events);
            call("TTL of nothing", () -> zk.create("/t", null, OPEN, CreateMode.PERSISTENT_WITH_TTL, new Stat(), 0));
            call("TTL too long",
                () -> zk.create("/t", null, OPEN, CreateMode.PERSISTENT_WITH_TTL, new Stat(), 0x10000000000L));
            call("longest TTL", () -> {
                Stat stat = new Stat();
                zk.create("/t", null, OPEN, CreateMode.PERSISTENT_WITH_TTL, stat, 0xffffffffffL);
                return stat;
            });
            zk.delete("/t", -1);
            zk.delete("/kept", -1);
        }
    }

    /** All watches are set before the nodes are there, which may be gone before the client gets to its next request. */
    private static void shortLived(ZooKeeper zk, Recorder.Events events) throws Exception {
        Watcher deletions = event -> {
            if (event.getType() == Watcher.Event.EventType.NodeDeleted) {
                events.process(event);
            }
        };
        for (String path : List.of("/short", "/parent", "/parent/child")) {
            zk.addWatch(path, deletions, AddWatchMode.PERSISTENT);
        }
        zk.create("/short", null, OPEN, CreateMode.PERSISTENT_WITH_TTL, new Stat(), 300);
        events.next();
        zk.multi(List.of(Op.create("/parent", null, OPEN, CreateMode.PERSISTENT_WITH_TTL, 300),
            Op.create("/parent/child", null, OPEN, CreateMode.PERSISTENT_WITH_TTL, 900)));
        events.next();
        events.next();
    }
}
