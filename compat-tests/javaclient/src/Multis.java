package compat;

import static compat.Main.bytes;
import static compat.Recorder.OPEN;
import static compat.Recorder.call;

import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.ZooKeeper;

/** Transactions and multiple reads. */
final class Multis {
    private Multis() {}

    static void run() throws Exception {
        Recorder.title("multi");
        try (ZooKeeper zk = Main.connect(Main.server)) {
            call("empty", () -> zk.multi(List.of()));
            call("all kinds", () -> zk.multi(List.of(
                create("/m", CreateMode.PERSISTENT), create("/m/a", CreateMode.PERSISTENT),
                create("/m/e", CreateMode.EPHEMERAL),
                create("/m/s-", CreateMode.PERSISTENT_SEQUENTIAL), create("/m/s-", CreateMode.EPHEMERAL_SEQUENTIAL),
                create("/m/c", CreateMode.CONTAINER),
                Op.create("/m/t", null, OPEN, CreateMode.PERSISTENT_WITH_TTL, 600_000),
                Op.setData("/m/a", bytes("set"), 0), Op.check("/m/a", 1), Op.delete("/m/c", 0))));
            call("stat of the parent", () -> zk.exists("/m", false));
            call("fails in the middle", () -> zk.multi(List.of(
                create("/m/x", CreateMode.PERSISTENT), Op.setData("/m/a", null, 99),
                create("/m/y", CreateMode.PERSISTENT))));
            call("fails at the start", () -> zk.multi(List.of(
                create("/m/a", CreateMode.PERSISTENT), create("/m/y", CreateMode.PERSISTENT))));
            call("fails at the end", () -> zk.multi(List.of(
                create("/m/y", CreateMode.PERSISTENT), Op.delete("/m", -1))));
            call("check fails", () -> zk.multi(List.of(Op.check("/m/a", 0), Op.delete("/m/a", -1))));
            call("check missing", () -> zk.multi(List.of(Op.check("/m/none", 0))));
            call("create and delete", () -> zk.multi(List.of(
                create("/m/z", CreateMode.PERSISTENT), Op.delete("/m/z", 0))));
            call("the same twice", () -> zk.multi(List.of(
                create("/m/z", CreateMode.PERSISTENT), create("/m/z", CreateMode.PERSISTENT))));
            call("nothing is left of it", () -> Recorder.sorted(zk.getChildren("/m", false)));
            call("transaction", () -> zk.transaction().check("/m/a", 1).setData("/m/a", bytes("t"), 1)
                .create("/m/b", bytes("b"), OPEN, CreateMode.PERSISTENT).delete("/m/t", -1).commit());
            call("reads", () -> zk.multi(List.of(
                Op.getData("/m/a"), Op.getChildren("/m"), Op.getData("/m/none"), Op.getChildren("/m/none"))));
            call("reads and writes", () -> zk.multi(List.of(Op.getData("/m/a"), create("/m/q",
                CreateMode.PERSISTENT))));
            call("stat after all", () -> zk.exists("/m", false));
        }
    }

    private static Op create(String path, CreateMode mode) {
        return Op.create(path, bytes("m"), OPEN, mode);
    }
}
