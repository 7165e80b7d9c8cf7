package compat;

import static compat.Main.bytes;
import static compat.Recorder.OPEN;
import static compat.Recorder.call;

import org.apache.zookeeper.ZooDefs.Ids;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.ZKUtil;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** Creating, reading, changing and deleting nodes. */
final class Nodes {
    private Nodes() {}

    static void run() throws Exception {
        Recorder.title("nodes");
        try (ZooKeeper zk = Main.connect(Main.server)) {
            creates(zk);
            reads(zk);
            changes(zk);
            deletes(zk);
        }
    }

    private static void creates(ZooKeeper zk) {
        for (CreateMode mode : CreateMode.values()) {
            String path = "/mode-" + mode.name().toLowerCase() + "-";
            if (mode.isTTL()) {
                call("create " + mode, () -> zk.create(path, null, OPEN, mode, new Stat(), 600_000));
                continue;
            }
            call("create " + mode, () -> zk.create(path, bytes("x"), OPEN, mode));
            Stat stat = new Stat();
            call("create again with stat " + mode,
                () -> new Object[] {zk.create(path, bytes("y"), OPEN, mode, stat), stat});
        }
        call("create parent", () -> zk.create("/p", bytes("parent"), OPEN, CreateMode.PERSISTENT));
        call("create empty data", () -> zk.create("/p/empty", new byte[0], OPEN, CreateMode.PERSISTENT));
        call("create null data", () -> zk.create("/p/null", null, OPEN, CreateMode.PERSISTENT));
        call("create unicode", () -> zk.create("/p/\u00e4\u4e2d", bytes("\u00fc"), OPEN, CreateMode.PERSISTENT));
        call("create no parent", () -> zk.create("/none/x", null, OPEN, CreateMode.PERSISTENT));
        call("create no acl", () -> zk.create("/p/noacl", null, Collections.emptyList(), CreateMode.PERSISTENT));
        call("create null acl", () -> zk.create("/p/nullacl", null, null, CreateMode.PERSISTENT));
        call("create under ephemeral", () -> {
            zk.create("/e", null, OPEN, CreateMode.EPHEMERAL);
            return zk.create("/e/x", null, OPEN, CreateMode.PERSISTENT);
        });
        call("create in container", () -> zk.create("/mode-container-/child", null, OPEN, CreateMode.PERSISTENT));
        call("create under ttl", () -> zk.create("/mode-persistent_with_ttl-/child", null, OPEN,
            CreateMode.PERSISTENT));
        call("create root", () -> zk.create("/", null, OPEN, CreateMode.PERSISTENT));
        call("create in system", () -> zk.create("/zookeeper/x", null, OPEN, CreateMode.PERSISTENT));
        call("create bad path", () -> zk.create("/a//b", null, OPEN, CreateMode.PERSISTENT));
        call("create one MB", () -> zk.create("/p/big", new byte[1_000_000], OPEN, CreateMode.PERSISTENT));
    }

    private static void reads(ZooKeeper zk) {
        for (String path : List.of("/p", "/e", "/p/empty", "/p/null", "/p/\u00e4\u4e2d", "/mode-container-",
            "/mode-persistent_with_ttl-", "/none", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")) {
            call("exists " + path, () -> zk.exists(path, false));
            Stat stat = new Stat();
            call("getData " + path, () -> new Object[] {data(zk.getData(path, false, stat)), stat});
            call("getChildren " + path, () -> Recorder.sorted(zk.getChildren(path, false)));
            Stat parent = new Stat();
            call("getChildren2 " + path,
                () -> new Object[] {Recorder.sorted(zk.getChildren(path, false, parent)), parent});
            call("getAllChildrenNumber " + path, () -> zk.getAllChildrenNumber(path));
        }
        call("getChildren /", () -> Recorder.sorted(zk.getChildren("/", false)));
        call("getEphemerals", () -> Recorder.sorted(zk.getEphemerals()));
        call("getEphemerals /mode", () -> Recorder.sorted(zk.getEphemerals("/mode")));
        call("getEphemerals /none", () -> zk.getEphemerals("/none"));
        call("getConfig", () -> data(zk.getConfig(false, new Stat())));
        call("size of one MB", () -> zk.getData("/p/big", false, null).length);
    }

    private static void changes(ZooKeeper zk) {
        call("setData", () -> zk.setData("/p", bytes("new"), 0));
        call("setData wrong version", () -> zk.setData("/p", bytes("newer"), 0));
        call("setData any version", () -> zk.setData("/p", null, -1));
        call("setData missing", () -> zk.setData("/none", null, -1));
        call("setData root", () -> zk.setData("/", bytes("root"), -1));
        call("setData config", () -> zk.setData("/zookeeper/config", bytes("x"), -1));
        call("getACL", () -> zk.getACL("/p", new Stat()));
        call("setACL", () -> zk.setACL("/p/empty", Ids.READ_ACL_UNSAFE, 0));
        call("setACL wrong version", () -> zk.setACL("/p", OPEN, 7));
        call("setACL twice the same", () -> zk.setACL("/p", twice(OPEN), -1));
        call("getACL after", () -> new Object[] {zk.getACL("/p", null), zk.getACL("/p/empty", null)});
        call("setACL missing", () -> zk.setACL("/none", OPEN, -1));
        call("setACL empty", () -> zk.setACL("/p", new ArrayList<>(), -1));
        call("setData without right", () -> zk.setData("/p/empty", null, -1));
        call("stat after", () -> zk.exists("/p", false));
    }

    private static void deletes(ZooKeeper zk) throws Exception {
        call("delete not empty", () -> delete(zk, "/p", -1));
        call("delete wrong version", () -> delete(zk, "/p/null", 3));
        call("delete", () -> delete(zk, "/p/null", 0));
        call("delete missing", () -> delete(zk, "/p/null", 0));
        call("delete root", () -> delete(zk, "/", -1));
        call("delete system", () -> delete(zk, "/zookeeper/quota", -1));
        call("stat of the parent", () -> zk.exists("/p", false));
        call("sequence after delete", () -> zk.create("/p/s-", null, OPEN, CreateMode.PERSISTENT_SEQUENTIAL));
        call("deleteRecursive", () -> ZKUtil.deleteRecursive(zk, "/p", 100));
        call("gone", () -> zk.exists("/p", false));
    }

    /** The data, or how long it is when the server's version of the node does not matter. */
    private static String data(byte[] data) {
        return data == null ? "null" : Recorder.show(data);
    }

    private static List<ACL> twice(List<ACL> acl) {
        List<ACL> both = new ArrayList<>(acl);
        both.addAll(acl);
        return both;
    }

    private static String delete(ZooKeeper zk, String path, int version) throws Exception {
        zk.delete(path, version);
        return "deleted";
    }
}
