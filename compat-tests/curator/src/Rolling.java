import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/** Clients and recipes that go on, all at once, while every server is stopped and started again. */
final class Rolling {
    static final int WITHIN_SECONDS = 200; // for all of it

    private static final AtomicInteger NAMES = new AtomicInteger();
    private static final CountDownLatch UNDER_WAY = new CountDownLatch(Ensemble.CLIENTS);

    private Rolling() {}

    static void checks(Map<String, Main.Check> checks, String servers, Path ready, Path stop) {
        Ensemble.use(servers, WITHIN_SECONDS, began -> !Files.exists(stop));
        checks.put("rolling/ready", () -> {
            Main.check(UNDER_WAY.await(WITHIN_SECONDS, TimeUnit.SECONDS), "not all clients have begun");
            Files.createFile(ready);
        });
        checks.put("rolling/load", () -> Ensemble.together(Rolling::load));
        checks.put("rolling/mutex", Ensemble::mutex);
        checks.put("rolling/latch", Ensemble::latch);
    }

    /**
     * No request fails that Curator does not try again by itself, what was written is read, and the session that was
     * there at first is there in the end, with its ephemeral.
     */
    private static void load(CuratorFramework client, long began) throws Exception {
        AtomicInteger lost = new AtomicInteger();
        client.getConnectionStateListenable().addListener((c, state) -> {
            if (state == ConnectionState.LOST) {
                lost.incrementAndGet();
            }
        });
        String path = "/rolling/load" + NAMES.incrementAndGet();
        client.create().idempotent().creatingParentsIfNeeded().forPath(path);
        client.create().idempotent().withMode(CreateMode.EPHEMERAL).forPath(path + "-here");
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        Stat here = client.checkExists().forPath(path + "-here");
        int written = 0;
        while (Ensemble.running(began)) {
            turn(client, path, ++written);
            if (written == 1) {
                UNDER_WAY.countDown();
            }
        }
        Main.equal(0, lost.get());
        Main.equal(session, client.getZookeeperClient().getZooKeeper().getSessionId());
        Main.equal(session, here.getEphemeralOwner());
        Main.equal(here, client.checkExists().forPath(path + "-here"));
    }

    private static void turn(CuratorFramework client, String path, int value) throws Exception {
        client.setData().forPath(path, Main.bytes(Integer.toString(value)));
        Main.equal(Integer.toString(value), Main.text(client.getData().forPath(path)));
        String child = client.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
            .forPath(path + "/child");
        Main.check(client.checkExists().forPath(child) != null, child + " is gone");
        client.delete().quietly().forPath(child);
        TimeUnit.MILLISECONDS.sleep(2);
    }
}
