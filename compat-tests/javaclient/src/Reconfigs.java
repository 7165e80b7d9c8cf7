package compat;

import static compat.Main.bytes;
import static compat.Recorder.call;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.AsyncCallback.DataCallback;
import org.apache.zookeeper.KeeperException.Code;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooDefs.Perms;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.admin.ZooKeeperAdmin;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Id;
import org.apache.zookeeper.data.Stat;

/**
 * usage: Reconfigs SERVER SUPER ALONE OBSERVER PARTICIPANT...: a server of an ensemble of those participants, the
 * superuser as user:password, a server that is no ensemble and has reconfig switched off, the line of an observer that
 * is down.
 */
public final class Reconfigs {
    private static final String CONFIG = "/zookeeper/config";
    private static final long ANY = -1;
    private static final long NO_VERSION = 0x7fff_ffff_ffffL;
    private static final String BOB = "bob:secret";
    private static final String BOB_DIGEST = "bob:fyVmFCwVbTJYrznoSu1koqYEYF0=";

    private static List<String> participants;
    private static String observer;

    private Reconfigs() {}

    public static void main(String[] args) throws Exception {
        observer = args[3];
        participants = Arrays.asList(args).subList(4, args.length);
        Recorder.title("reconfig");
        try (ZooKeeperAdmin admin = connect(args[0])) {
            call("getConfig", () -> admin.getConfig(false, new Stat()));
            call("without permission", () -> admin.reconfigure(observer, null, null, ANY, new Stat()));
            call("without permission, of another version", () -> admin.reconfigure(observer, null, null, 7, null));
            admin.addAuthInfo("digest", bytes(args[1]));
            incremental(admin);
            whole(admin);
            mistakes(admin);
            asynchronous(admin);
            granted(admin, args[0]);
        }
        try (ZooKeeperAdmin alone = connect(args[2])) {
            alone.addAuthInfo("digest", bytes(args[1]));
            call("switched off", () -> alone.reconfigure(observer, null, null, ANY, new Stat()));
        }
        System.out.println("# end");
    }

    private static ZooKeeperAdmin connect(String address) throws Exception {
        Recorder.Events events = new Recorder.Events("session");
        ZooKeeperAdmin admin = new ZooKeeperAdmin(address, Main.TIMEOUT_MILLIS, events);
        events.await(KeeperState.SyncConnected);
        return admin;
    }

    /** The version of the configuration as it is. */
    private static long version(ZooKeeper zk) throws Exception {
        String text = new String(zk.getConfig(false, null), java.nio.charset.StandardCharsets.UTF_8);
        return Long.parseLong(text.substring(text.indexOf("version=") + "version=".length()), 16);
    }

    private static void incremental(ZooKeeperAdmin admin) throws Exception {
        Recorder.Events events = new Recorder.Events("config");
        admin.getConfig(events, null);
        Stat stat = new Stat();
        call("of another version", () -> admin.reconfigure(observer, null, null, NO_VERSION, new Stat()));
        events.none();
        call("add", () -> admin.reconfigure(observer, null, null, version(admin), stat));
        System.out.println("its Stat is " + Recorder.show(stat));
        call("the version is the mzxid", () -> version(admin) == stat.getMzxid());
        events.next();
        call("getConfig", () -> admin.getConfig(false, new Stat()));
        call("add again", () -> admin.reconfigure(observer, "", null, ANY, null));
        events.none();
        long older = version(admin);
        call("remove", () -> admin.reconfigure(null, "4", null, ANY, new Stat()));
        call("of the version before", () -> admin.reconfigure(observer, null, null, older, new Stat()));
        call("remove what is not there", () -> admin.reconfigure(null, "4,77", null, ANY, new Stat()));
        call("add and remove, as lists", () -> admin.reconfigure(List.of(observer), List.of("77"), null, ANY, stat));
        List<String> none = null;
        call("remove, as a list", () -> admin.reconfigure(none, List.of("4"), none, version(admin), stat));
        System.out.println("its Stat is " + Recorder.show(stat));
    }

    private static void whole(ZooKeeperAdmin admin) throws Exception {
        List<String> all = new ArrayList<>(participants);
        all.add(observer);
        String text = String.join(",", all);
        Stat stat = new Stat();
        call("whole, of another version", () -> admin.reconfigure(null, null, text, NO_VERSION, stat));
        call("whole", () -> admin.reconfigure(null, null, text, version(admin), stat));
        System.out.println("its Stat is " + Recorder.show(stat));
        long older = version(admin);
        call("whole, as a list", () -> admin.reconfigure(null, null, participants, ANY, stat));
        call("whole, of the version before", () -> admin.reconfigure(null, null, all, older, stat));
        call("whole, the same", () -> admin.reconfigure(null, null, participants, version(admin), stat));
        call("getConfig", () -> admin.getConfig(false, stat));
        System.out.println("its Stat is " + Recorder.show(stat));
    }

    private static void mistakes(ZooKeeperAdmin admin) {
        String none = null;
        call("nothing", () -> admin.reconfigure(none, none, none, ANY, null));
        call("empty texts", () -> admin.reconfigure("", "", "", ANY, null));
        call("empty lists", () -> admin.reconfigure(List.of(), List.of(), (List<String>) null, ANY, null));
        call("both ways", () -> admin.reconfigure(observer, none, String.join(",", participants), ANY, null));
        call("no address", () -> admin.reconfigure("server.4=x", none, none, ANY, null));
        call("no equals sign", () -> admin.reconfigure("server.4", none, none, ANY, null));
        call("no client port", () -> admin.reconfigure("server.4=127.0.0.1:1:2", none, none, ANY, null));
        call("no role", () -> admin.reconfigure("server.4=127.0.0.1:1:2:king;127.0.0.1:3", none, none, ANY, null));
        call("no number leaves", () -> admin.reconfigure(none, "x", none, ANY, null));
        call("all leave", () -> admin.reconfigure(none, "1,2,3", none, ANY, null));
        call("ports of another", () -> admin.reconfigure(
            participants.get(0).replace("server.1=", "server.4="), none, none, ANY, null));
        call("garbage for members", () -> admin.reconfigure(none, none, "garbage", ANY, null));
        call("observers only", () -> admin.reconfigure(none, none, observer, ANY, null));
        String mostlyDown = String.join(",", participants.get(0),
            "server.8=127.0.0.1:1:2:participant;127.0.0.1:3", "server.9=127.0.0.1:4:5:participant;127.0.0.1:6");
        call("most are down", () -> admin.reconfigure(none, none, mostlyDown, ANY, null));
        call("getConfig", () -> admin.getConfig(false, new Stat()));
    }

    private static void asynchronous(ZooKeeperAdmin admin) throws Exception {
        Recorder.title("reconfig, asynchronous");
        await("of another version", done -> admin.reconfigure(observer, null, null, NO_VERSION, done, "context"));
        await("add", done -> admin.reconfigure(List.of(observer), null, null, ANY, done, "context"));
        await("garbage", done -> admin.reconfigure(null, null, "garbage", ANY, done, "context"));
        await("whole", done -> admin.reconfigure(null, null, participants, ANY, done, "context"));
        await("getConfig", done -> admin.getConfig(false, done, "context"));
    }

    private interface Asking {
        void ask(DataCallback done) throws Exception;
    }

    private static void await(String name, Asking asking) throws Exception {
        CountDownLatch answered = new CountDownLatch(1);
        asking.ask((rc, path, context, data, stat) -> {
            System.out.println(name + " -> " + Code.get(rc) + " " + path + " " + context + " "
                + Recorder.show(data) + " " + Recorder.show(stat));
            answered.countDown();
        });
        if (!answered.await(Recorder.WAIT_SECONDS, TimeUnit.SECONDS)) {
            System.out.println(name + " -> NONE");
        }
    }

    /** Who may write the node of the configuration may reconfigure. */
    private static void granted(ZooKeeperAdmin admin, String address) throws Exception {
        Recorder.title("reconfig by the ACL");
        try (ZooKeeperAdmin bob = connect(address)) {
            bob.addAuthInfo("digest", bytes(BOB));
            admin.setACL(CONFIG, Arrays.asList(new ACL(Perms.READ, Ids.ANYONE_ID_UNSAFE)), -1);
            call("may read", () -> bob.reconfigure(observer, null, null, ANY, null));
            admin.setACL(CONFIG, Arrays.asList(new ACL(Perms.READ | Perms.WRITE, new Id("digest", BOB_DIGEST))), -1);
            call("may write", () -> bob.reconfigure(observer, null, null, ANY, null));
            admin.setACL(CONFIG, Arrays.asList(new ACL(Perms.WRITE, new Id("digest", BOB_DIGEST))), -1);
            call("may only write", () -> bob.reconfigure(null, "4", null, ANY, null));
            call("may not read", () -> bob.getConfig(false, null));
            call("overwritten", () -> admin.setData(CONFIG, bytes("garbage"), -1));
            call("getConfig", () -> admin.getConfig(false, new Stat()));
            call("add after that", () -> admin.reconfigure(observer, null, null, ANY, null));
        }
    }
}
