package compat;

import static compat.Main.bytes;
import static compat.Recorder.OPEN;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.Watcher.WatcherType;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** The asynchronous form of every call: all are sent before the first answer is looked at, and answered in order. */
final class Asynchronous {
    private final ZooKeeper zk;
    private final StringBuffer order = new StringBuffer();
    private final java.util.ArrayList<CompletableFuture<String>> answers = new java.util.ArrayList<>();

    private Asynchronous(ZooKeeper zk) {
        this.zk = zk;
    }

    static void run() throws Exception {
        Recorder.title("asynchronous");
        try (ZooKeeper zk = Main.connect(Main.server)) {
            new Asynchronous(zk).everything();
        }
    }

    private void everything() throws Exception {
        zk.create("/as", null, OPEN, CreateMode.PERSISTENT, (rc, p, c, name) -> done(c, rc, name), next("create"));
        zk.create("/as/2", null, OPEN, CreateMode.PERSISTENT, (rc, p, c, name, stat) -> done(c, rc, name, stat),
          next("create2"));
        zk.create("/as/t", null, OPEN, CreateMode.PERSISTENT_WITH_TTL,
            (rc, p, c, name, stat) -> done(c, rc, name, stat), next("createTTL"), 600_000);
        zk.create("/as/2", null, OPEN, CreateMode.PERSISTENT, (rc, p, c, name) -> done(c, rc, name),
            next("create again"));
        zk.exists("/as", false, (rc, p, c, stat) -> done(c, rc, stat), next("exists"));
        zk.exists("/none", false, (rc, p, c, stat) -> done(c, rc, stat), next("exists missing"));
        zk.setData("/as", bytes("d"), -1, (rc, p, c, stat) -> done(c, rc, stat), next("setData"));
        zk.getData("/as", false, (rc, p, c, data, stat) -> done(c, rc, data, stat), next("getData"));
        zk.getChildren("/as", false, (rc, p, c, kids) -> done(c, rc, Recorder.sorted(kids)), next("getChildren"));
        zk.getChildren("/as", false, (rc, p, c, kids, stat) -> done(c, rc, Recorder.sorted(kids), stat),
            next("getChildren2"));
        zk.setACL("/as", OPEN, 0, (rc, p, c, stat) -> done(c, rc, stat), next("setACL"));
        zk.getACL("/as", new Stat(), (rc, p, c, acl, stat) -> done(c, rc, acl, stat), next("getACL"));
        zk.multi(List.of(Op.check("/as", 1), Op.delete("/as/t", -1)), (rc, p, c, results) -> done(c, rc, results),
            next("multi"));
        zk.multi(List.of(Op.check("/as", 9), Op.delete("/as/2", -1)), (rc, p, c, results) -> done(c, rc, results),
            next("multi fails"));
        zk.addWatch("/as", e -> { }, AddWatchMode.PERSISTENT, (rc, p, c) -> done(c, rc), next("addWatch"));
        zk.removeAllWatches("/as", WatcherType.Any, false, (rc, p, c) -> done(c, rc), next("removeAllWatches"));
        zk.getAllChildrenNumber("/as", (rc, p, c, number) -> done(c, rc, number), next("getAllChildrenNumber"));
        zk.getEphemerals("/none", (rc, c, paths) -> done(c, rc, paths), next("getEphemerals"));
        zk.sync("/as", (rc, p, c) -> done(c, rc, p), next("sync"));
        zk.delete("/as/2", 0, (rc, p, c) -> done(c, rc), next("delete"));
        zk.delete("/as/none", 0, (rc, p, c) -> done(c, rc), next("delete missing"));
        zk.getConfig(false, (rc, p, c, data, stat) -> done(c, rc), next("getConfig"));
        for (int i = 0; i < 500; i++) {
            zk.create("/as/many-", null, OPEN, CreateMode.PERSISTENT_SEQUENTIAL,
                (rc, p, c, name) -> order.append(rc == 0 ? name.substring(name.length() - 4) : "error " + rc), null);
        }
        zk.delete("/as", 0, (rc, p, c) -> done(c, rc), next("delete not empty"));
        for (CompletableFuture<String> answer : answers) {
            System.out.println(answer.get(Recorder.WAIT_SECONDS, TimeUnit.SECONDS));
        }
        StringBuilder expected = new StringBuilder();
        for (int i = 0; i < 500; i++) {
            expected.append(String.format("%04d", i + 2));
        }
        System.out.println("500 sequential creates in flight -> "
            + (expected.toString().equals(order.toString()) ? "answered in order, numbered in order" : order));
        org.apache.zookeeper.ZKUtil.deleteRecursive(zk, "/as", 100);
    }

    private Object next(String name) {
        CompletableFuture<String> answer = new CompletableFuture<>();
        answers.add(answer);
        return new Object[] {name, answer};
    }

    @SuppressWarnings("unchecked")
    private static void done(Object context, int rc, Object... results) {
        Object[] pair = (Object[]) context;
        StringBuilder text = new StringBuilder(pair[0] + " -> " + Code.get(rc));
        for (Object result : results) {
            text.append(' ').append(Recorder.show(result));
        }
        ((CompletableFuture<String>) pair[1]).complete(text.toString());
    }
}
