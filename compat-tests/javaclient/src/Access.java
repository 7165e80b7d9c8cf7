package compat;

import static compat.Main.bytes;
import static compat.Recorder.OPEN;
import static compat.Recorder.call;

import org.apache.zookeeper.ZooDefs.Ids;
import java.util.List;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/** Identities and access control. */
final class Access {
    private static final String DIGEST = "ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=";

    private Access() {}

    static void run() throws Exception {
        Recorder.title("access");
        try (ZooKeeper ann = Main.connect(Main.server); ZooKeeper other = Main.connect(Main.server)) {
            call("whoAmI before", () -> Recorder.identities(ann.whoAmI()));
            call("auth: without identity", () -> ann.create("/acl", null, Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT));
            ann.addAuthInfo("digest", bytes("ann:secret"));
            call("whoAmI after", () -> Recorder.identities(ann.whoAmI()));
            call("create for the creator", () -> ann.create("/acl", bytes("hidden"), Ids.CREATOR_ALL_ACL,
                CreateMode.PERSISTENT));
            ann.create("/acl/child", null, acl(Perms.ALL, "world", "anyone"), CreateMode.PERSISTENT);
            call("getACL of the creator", () -> ann.getACL("/acl", new Stat()));
            denied(other);
            schemes(ann);
            ann.setACL("/acl", acl(Perms.READ, "world", "anyone"), -1);
            call("ACL now without admin", () -> other.getACL("/acl", null));
            call("setACL without admin", () -> ann.setACL("/acl", OPEN, -1));
            other.addAuthInfo("digest", bytes("super:superpw"));
            call("whoAmI of super", () -> Recorder.identities(other.whoAmI()));
            call("super may", () -> other.setACL("/acl", OPEN, -1));
            call("super config", () -> other.setData("/zookeeper/config", bytes(""), -1).getVersion());
        }
        Recorder.Events events = new Recorder.Events("session");
        try (ZooKeeper zk = Main.connect(Main.server, events)) {
            zk.addAuthInfo("nonsense", bytes("x"));
            events.await(KeeperState.AuthFailed);
            call("after failed authentication", () -> zk.exists("/", false));
        }
    }

    private static void denied(ZooKeeper other) {
        call("getData denied", () -> other.getData("/acl", false, null));
        call("exists denied", () -> other.exists("/acl", false));
        call("getChildren denied", () -> other.getChildren("/acl", false));
        call("getACL denied", () -> other.getACL("/acl", null));
        call("setData denied", () -> other.setData("/acl", null, -1));
        call("setData denied before version", () -> other.setData("/acl", null, 77));
        call("setACL denied", () -> other.setACL("/acl", OPEN, -1));
        call("create denied", () -> other.create("/acl/x", null, OPEN, CreateMode.PERSISTENT));
        call("delete denied by the parent", () -> {
            other.delete("/acl/child", -1);
            return "deleted";
        });
        call("multi denied", () -> other.multi(List.of(
            org.apache.zookeeper.Op.setData("/acl/child", null, -1),
            org.apache.zookeeper.Op.setData("/acl", null, -1))));
        call("getAllChildrenNumber denied", () -> other.getAllChildrenNumber("/acl"));
    }

    private static void schemes(ZooKeeper ann) {
        for (ACL acl : List.of(
            one(Perms.ALL, "digest", DIGEST), one(Perms.ALL, "digest", "nodigest"), one(Perms.ALL, "ip", "127.0.0.1"),
            one(Perms.ALL, "ip", "127.0.0.0/8"), one(Perms.ALL, "ip", "127.0.0.0/77"), one(Perms.ALL, "ip", "nonsense"),
            one(Perms.ALL, "ip", "::1"), one(Perms.ALL, "world", "anyone"), one(Perms.ALL, "world", "noone"),
            one(Perms.ALL, "auth", ""), one(Perms.ALL, "auth", "ignored"), one(Perms.ALL, "x509", "CN=a"),
            one(Perms.ALL, "sasl", "user"), one(Perms.ALL, "nonsense", "x"), one(Perms.ALL, "super", "x"),
            one(0, "world", "anyone"), one(255, "world", "anyone"))) {
            call("create with " + Recorder.show(acl), () -> {
                ann.create("/scheme", bytes("s"), new java.util.ArrayList<>(List.of(acl)), CreateMode.EPHEMERAL);
                return ann.exists("/scheme", false) != null;
            });
            call("its ACL", () -> ann.getACL("/scheme", null));
            call("its data", () -> ann.getData("/scheme", false, null));
            call("its end", () -> {
                ann.delete("/scheme", -1);
                return "deleted";
            });
        }
    }

    private static List<ACL> acl(int perms, String scheme, String id) {
        return java.util.Collections.singletonList(one(perms, scheme, id)); // the client asks it whether it holds null
    }

    private static ACL one(int perms, String scheme, String id) {
        return new ACL(perms, new Id(scheme, id));
    }
}
