import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.cache.TreeCacheEvent;

/** The four caches, over a broken connection where they promise to survive it. */
@SuppressWarnings("deprecation") // the older caches are what most deployments still run
final class Caches {
    private Caches() {}

    static void checks(Map<String, Main.Check> checks) {
        checks.put("caches/curator-cache", Caches::curatorCache);
        checks.put("caches/path-children-cache", Caches::pathChildrenCache);
        checks.put("caches/tree-cache", Caches::treeCache);
        checks.put("caches/node-cache", Caches::nodeCache);
    }

    private static void curatorCache() throws Exception {
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        try (CuratorFramework client = Main.client(Main.proxy); CuratorFramework other = Main.client()) {
            other.create().creatingParentsIfNeeded().forPath("/caches/cc/a", Main.bytes("1"));
            try (CuratorCache cache = CuratorCache.build(client, "/caches/cc")) {
                cache.listenable().addListener(CuratorCacheListener.builder()
                    .forCreates(node -> events.add("created " + node.getPath()))
                    .forChanges((before, after) ->
                        events.add("changed " + after.getPath() + " " + Main.text(after.getData())))
                    .forDeletes(node -> events.add("deleted " + node.getPath()))
                    .forInitialized(() -> events.add("initialized")).build());
                cache.start();
                expect(events, "created /caches/cc", "created /caches/cc/a", "initialized");
                other.setData().forPath("/caches/cc/a", Main.bytes("2"));
                expect(events, "changed /caches/cc/a 2");
                other.create().forPath("/caches/cc/a/b");
                expect(events, "created /caches/cc/a/b");
                Main.cutConnections();
                other.setData().forPath("/caches/cc/a", Main.bytes("3"));
                other.delete().forPath("/caches/cc/a/b");
                Main.eventually("the change while away is seen",
                    () -> cache.get("/caches/cc/a").map(n -> Main.text(n.getData()).equals("3")).orElse(false));
                Main.eventually("the delete while away is seen", () -> cache.get("/caches/cc/a/b").isEmpty());
            }
        }
    }

    private static void pathChildrenCache() throws Exception {
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        try (CuratorFramework client = Main.client(); CuratorFramework other = Main.client();
            PathChildrenCache cache = new PathChildrenCache(client, "/caches/pcc", true)) {
            cache.getListenable().addListener((c, e) ->
                events.add(e.getType() + (e.getData() == null ? "" : " " + e.getData().getPath())));
            cache.start(PathChildrenCache.StartMode.POST_INITIALIZED_EVENT);
            expect(events, "INITIALIZED");
            other.create().forPath("/caches/pcc/x", Main.bytes("1"));
            expect(events, "CHILD_ADDED /caches/pcc/x");
            other.setData().forPath("/caches/pcc/x", Main.bytes("2"));
            expect(events, "CHILD_UPDATED /caches/pcc/x");
            other.delete().forPath("/caches/pcc/x");
            expect(events, "CHILD_REMOVED /caches/pcc/x");
        }
    }

    private static void treeCache() throws Exception {
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        try (CuratorFramework client = Main.client(Main.proxy); CuratorFramework other = Main.client()) {
            other.create().creatingParentsIfNeeded().forPath("/caches/tc/a/b");
            try (TreeCache cache = TreeCache.newBuilder(client, "/caches/tc").build()) {
                cache.getListenable().addListener((c, e) -> {
                    if (e.getType() == TreeCacheEvent.Type.INITIALIZED || e.getData() != null) {
                        events.add(e.getType() + (e.getData() == null ? "" : " " + e.getData().getPath()));
                    }
                });
                cache.start();
                expect(events, "NODE_ADDED /caches/tc", "NODE_ADDED /caches/tc/a", "NODE_ADDED /caches/tc/a/b",
                    "INITIALIZED");
                other.delete().forPath("/caches/tc/a/b");
                expect(events, "NODE_REMOVED /caches/tc/a/b");
                Main.cutConnections();
                other.create().forPath("/caches/tc/a/c");
                Main.eventually("the create while away is seen", () -> cache.getCurrentData("/caches/tc/a/c") != null);
            }
        }
    }

    private static void nodeCache() throws Exception {
        BlockingQueue<String> events = new LinkedBlockingQueue<>();
        try (CuratorFramework client = Main.client(); CuratorFramework other = Main.client();
            NodeCache cache = new NodeCache(client, "/caches/node")) {
            cache.getListenable().addListener(
                () -> events.add(cache.getCurrentData() == null ? "gone"
                    : Main.text(cache.getCurrentData().getData())));
            cache.start(true);
            other.create().creatingParentsIfNeeded().forPath("/caches/node", Main.bytes("1"));
            expect(events, "1");
            other.setData().forPath("/caches/node", Main.bytes("2"));
            expect(events, "2");
            other.delete().forPath("/caches/node");
            expect(events, "gone");
        }
    }

    private static void expect(BlockingQueue<String> events, String... wanted) throws Exception {
        for (String want : wanted) {
            Main.equal(want, events.poll(Main.WAIT_SECONDS, TimeUnit.SECONDS));
        }
    }
}
