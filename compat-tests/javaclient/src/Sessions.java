package compat;

import static compat.Main.bytes;
import static compat.Recorder.OPEN;
import static compat.Recorder.call;

import org.apache.zookeeper.ZooDefs.Ids;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/** Chroots, taking over a session, wrong passwords, negotiated time-outs, the end of a session. */
final class Sessions {
    private static final int TAKE_OVERS_MAX = 10;

    private Sessions() {}

    static void run() throws Exception {
        Recorder.title("sessions");
        try (ZooKeeper zk = Main.connect(Main.server)) {
            zk.create("/root", null, OPEN, CreateMode.PERSISTENT);
            chroot(zk);
            takeOver(zk);
            wrongPassword(zk);
            brokenConnection(zk);
            closing(zk);
            timeouts();
            zk.delete("/root", -1);
        }
    }

    private static void chroot(ZooKeeper zk) throws Exception {
        Recorder.Events events = new Recorder.Events("chroot");
        try (ZooKeeper below = Main.connect(Main.server + "/root")) {
            below.exists("/x", events);
            call("chroot create", () -> below.create("/x", null, OPEN, CreateMode.EPHEMERAL));
            events.next();
            call("chroot sequence", () -> below.create("/s-", null, OPEN, CreateMode.EPHEMERAL_SEQUENTIAL));
            call("chroot children", () -> Recorder.sorted(below.getChildren("/", false)));
            call("chroot getEphemerals", () -> Recorder.sorted(below.getEphemerals()));
            call("chroot from outside", () -> Recorder.sorted(zk.getChildren("/root", false)));
        }
        try (ZooKeeper nowhere = Main.connect(Main.server + "/nowhere")) {
            call("chroot that is not there", () -> nowhere.create("/x", null, OPEN, CreateMode.PERSISTENT));
        }
    }

    private static void takeOver(ZooKeeper zk) throws Exception {
        Recorder.Events first = new Recorder.Events("first");
        Recorder.Events second = new Recorder.Events("second");
        // The first handle would take its session back at once: its way to the server is closed.
        ZooKeeper old = Main.connect(Main.doomed, first);
        old.create("/root/mine", null, OPEN, CreateMode.EPHEMERAL);
        Main.closeDoomed();
        first.await(KeeperState.Disconnected);
        try (ZooKeeper taken = new ZooKeeper(Main.server, Main.TIMEOUT_MILLIS, second,
            old.getSessionId(), old.getSessionPasswd())) {
            second.await(KeeperState.SyncConnected);
            System.out.println("same session: " + (taken.getSessionId() == old.getSessionId())
                + ", same password: " + Arrays.equals(taken.getSessionPasswd(), old.getSessionPasswd()));
            call("its ephemeral", () -> taken.exists("/root/mine", false));
        }
        call("ephemeral after the close", () -> zk.exists("/root/mine", false));
        old.close();
        takeOverTwice(zk);
    }

    /** Two handles on one session: whoever comes last has it, and the first one hears of its end. */
    private static void takeOverTwice(ZooKeeper zk) throws Exception {
        Recorder.Events first = new Recorder.Events("first");
        ZooKeeper old = Main.connect(Main.server, first);
        old.create("/root/both", null, OPEN, CreateMode.EPHEMERAL);
        int tries = 0;
        do { // again if the first one, which waits for up to a second, is back before the close
            if (++tries > TAKE_OVERS_MAX) {
                throw new IllegalStateException("the close of the second handle does not end the session");
            }
            CountDownLatch connected = new CountDownLatch(1);
            ZooKeeper taken = new ZooKeeper(Main.server, Main.TIMEOUT_MILLIS, event -> {
                if (event.getState() == KeeperState.SyncConnected) {
                    connected.countDown();
                }
            }, old.getSessionId(), old.getSessionPasswd());
            if (!connected.await(Recorder.WAIT_SECONDS, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the second handle does not get the session");
            }
            taken.close();
        } while (zk.exists("/root/both", false) != null);
        System.out.println("state second: " + KeeperState.SyncConnected);
        first.await(KeeperState.Disconnected);
        first.await(KeeperState.Expired);
        old.close();
    }

    private static void wrongPassword(ZooKeeper zk) throws Exception {
        Recorder.Events refused = new Recorder.Events("refused");
        byte[] wrong = zk.getSessionPasswd().clone();
        wrong[0]++;
        // A session that is not there: a wrong password for a live one would disturb it on the real server.
        try (ZooKeeper nobody = new ZooKeeper(Main.server, Main.TIMEOUT_MILLIS, refused, 0x123456789L, wrong)) {
            refused.await(KeeperState.Expired);
            call("on a session that is not there", () -> nobody.exists("/", false));
        }
    }

    private static void brokenConnection(ZooKeeper zk) throws Exception {
        Recorder.Events events = new Recorder.Events("session");
        try (ZooKeeper cut = Main.connect(Main.proxy, events)) {
            long id = cut.getSessionId();
            cut.addAuthInfo("digest", bytes("ann:secret"));
            cut.create("/root/kept", null, Ids.CREATOR_ALL_ACL, CreateMode.EPHEMERAL);
            for (int i = 0; i < 3; i++) {
                Main.cutConnections();
                events.await(KeeperState.Disconnected);
                events.await(KeeperState.SyncConnected);
                call("identity and ephemeral survive", () -> cut.setData("/root/kept", null, -1));
            }
            System.out.println("same session: " + (cut.getSessionId() == id));
            call("whoAmI again", () -> Recorder.identities(cut.whoAmI()));
        }
        call("gone with the close", () -> zk.exists("/root/kept", false));
    }

    private static void closing(ZooKeeper zk) throws Exception {
        Recorder.Events gone = new Recorder.Events("gone");
        ZooKeeper shortLived = Main.connect(Main.server);
        shortLived.create("/root/e1", null, OPEN, CreateMode.EPHEMERAL);
        shortLived.create("/root/e2", null, OPEN, CreateMode.EPHEMERAL);
        zk.exists("/root/e1", gone);
        zk.exists("/root/e2", gone);
        zk.getChildren("/root", gone);
        shortLived.close();
        gone.nextSorted(3);
        call("after close", () -> shortLived.exists("/", false));
    }

    private static void timeouts() throws Exception {
        for (int wanted : new int[] {1_000, 4_000, 10_000, 40_000, 1_000_000}) {
            Recorder.Events events = new Recorder.Events("session");
            try (ZooKeeper zk = new ZooKeeper(Main.server, wanted, events, true)) {
                events.await(KeeperState.SyncConnected);
                System.out.println("time-out wanted " + wanted + ", granted " + zk.getSessionTimeout());
            }
        }
    }
}
