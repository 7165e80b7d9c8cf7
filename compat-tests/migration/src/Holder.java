package compat;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs.Ids;
import org.apache.zookeeper.ZooKeeper;

/**
 * Holds one session while the server behind its address is replaced. For each line on its input it asks for its
 * ephemeral znode, again until the server is there, and prints the session and what has become of it.
 */
final class Holder {
    // The client itself gives its session up when no server was there for four thirds of it.
    private static final int TIMEOUT_MILLIS = 120_000;

    private Holder() {}

    public static void main(String[] args) throws Exception {
        LinkedBlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        try (ZooKeeper zk = new ZooKeeper(args[0], TIMEOUT_MILLIS, events::add)) {
            events.poll(TIMEOUT_MILLIS, TimeUnit.MILLISECONDS);
            zk.create("/holder", new byte[] {1}, Ids.OPEN_ACL_UNSAFE, CreateMode.EPHEMERAL);
            zk.create("/watched", null, Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            zk.exists("/watched", true);
            say(zk);
            for (String line = in.readLine(); line != null && !line.equals("end"); line = in.readLine()) {
                say(zk);
            }
            zk.setData("/watched", new byte[] {2}, 0);
            System.out.println("the watch is told: " + told(events));
        }
    }

    private static void say(ZooKeeper zk) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(120);
        while (true) {
            try {
                boolean mine = zk.exists("/holder", false).getEphemeralOwner() == zk.getSessionId();
                System.out.println(Long.toHexString(zk.getSessionId()) + " "
                    + HexFormat.of().formatHex(zk.getSessionPasswd()) + " " + mine);
                return;
            } catch (org.apache.zookeeper.KeeperException.ConnectionLossException e) {
                if (System.nanoTime() > deadline) {
                    throw e;
                }
            }
        }
    }

    private static boolean told(LinkedBlockingQueue<WatchedEvent> events) throws Exception {
        WatchedEvent event = events.poll(TIMEOUT_MILLIS, TimeUnit.MILLISECONDS);
        while (event != null && event.getType() != EventType.NodeDataChanged) {
            event = events.poll(TIMEOUT_MILLIS, TimeUnit.MILLISECONDS);
        }
        return event != null && event.getPath().equals("/watched");
    }
}
