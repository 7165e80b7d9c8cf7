import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.api.ACLProvider;
import org.apache.curator.framework.api.CuratorEvent;
import org.apache.curator.framework.api.transaction.CuratorOp;
import org.apache.curator.framework.api.transaction.CuratorTransactionResult;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.Stat;

/** The framework itself: builders, transactions, protection, watches, background calls, the ensemble tracker. */
final class Framework {
    private Framework() {}

    static void checks(Map<String, Main.Check> checks) {
        checks.put("framework/create-read-write-delete", Framework::basics);
        checks.put("framework/parents-as-containers", Framework::parents);
        checks.put("framework/protection", Framework::protection);
        checks.put("framework/transactions", Framework::transactions);
        checks.put("framework/background", Framework::background);
        checks.put("framework/acl-and-auth", Framework::access);
        checks.put("framework/persistent-watcher", Framework::persistentWatcher);
        checks.put("framework/ensemble-tracker", Framework::ensembleTracker);
        checks.put("framework/reconnect", Framework::reconnect);
    }

    private static void basics() throws Exception {
        try (CuratorFramework client = Main.client()) {
            CuratorFramework here = client.usingNamespace("basics");
            Main.equal("/a", here.create().forPath("/a", Main.bytes("1")));
            Main.equal("/a/s-0000000000", here.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).forPath("/a/s-"));
            Stat stat = new Stat();
            here.create().storingStatIn(stat).forPath("/b", Main.bytes("22"));
            Main.equal(2, stat.getDataLength());
            here.create().orSetData().forPath("/b", Main.bytes("333"));
            Main.equal("333", Main.text(here.getData().storingStatIn(stat).forPath("/b")));
            Main.equal(1, stat.getVersion());
            try {
                here.setData().withVersion(9).forPath("/b", Main.bytes("x"));
                throw new AssertionError("a wrong version was taken");
            } catch (KeeperException.BadVersionException expected) {
                Main.check(here.checkExists().forPath("/none") == null, "/none exists");
            }
            here.create().idempotent().forPath("/i", Main.bytes("same"));
            here.create().idempotent().forPath("/i", Main.bytes("same"));
            here.setData().compressed().forPath("/b", new byte[10_000]);
            Main.equal(10_000, here.getData().decompressed().forPath("/b").length);
            Main.check(here.checkExists().forPath("/b").getDataLength() < 1_000, "compressed data is long");
            Main.equal(List.of("s-0000000000"), here.getChildren().storingStatIn(stat).forPath("/a"));
            here.delete().quietly().forPath("/none");
            here.delete().guaranteed().deletingChildrenIfNeeded().forPath("/a");
            here.sync().forPath("/");
            Main.check(here.checkExists().forPath("/a") == null, "/a is still there");
        }
    }

    private static void parents() throws Exception {
        try (CuratorFramework client = Main.client()) {
            client.create().creatingParentContainersIfNeeded().forPath("/boxes/x/y", Main.bytes("deep"));
            client.create().creatingParentsIfNeeded().forPath("/kept/x/y");
            client.delete().forPath("/boxes/x/y");
            client.delete().forPath("/kept/x/y");
            Main.eventually("/boxes is cleaned up", () -> client.checkExists().forPath("/boxes") == null);
            Main.check(client.checkExists().forPath("/kept/x") != null, "a persistent parent was cleaned up");
            client.create().withTtl(300).withMode(CreateMode.PERSISTENT_WITH_TTL).forPath("/brief");
            Main.eventually("/brief expires", () -> client.checkExists().forPath("/brief") == null);
        }
    }

    private static void protection() throws Exception {
        try (CuratorFramework client = Main.client()) {
            String path = client.create().creatingParentsIfNeeded().withProtection()
                .withMode(CreateMode.EPHEMERAL_SEQUENTIAL)
                .forPath("/protected/n-");
            Main.check(path.matches("/protected/_c_[0-9a-f-]{36}-n-0000000000"), path);
        }
        try (CuratorFramework client = Main.client()) {
            Main.equal(List.of(), client.getChildren().forPath("/protected"));
        }
    }

    private static void transactions() throws Exception {
        try (CuratorFramework client = Main.client()) {
            CuratorOp create = client.transactionOp().create().forPath("/tx", Main.bytes("1"));
            CuratorOp child = client.transactionOp().create()
                .withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath("/tx/e-");
            CuratorOp set = client.transactionOp().setData().withVersion(0).forPath("/tx", Main.bytes("2"));
            CuratorOp check = client.transactionOp().check().withVersion(1).forPath("/tx");
            Collection<CuratorTransactionResult> results = client.transaction().forOperations(create, child, set,
                check);
            List<String> paths = new ArrayList<>();
            results.forEach(r -> paths.add(r.getResultPath()));
            Main.equal(4, results.size());
            Main.equal("/tx/e-0000000000", paths.get(1));
            CuratorOp delete = client.transactionOp().delete().forPath("/tx/e-0000000000");
            CuratorOp wrong = client.transactionOp().check().withVersion(7).forPath("/tx");
            try {
                client.transaction().forOperations(delete, wrong);
                throw new AssertionError("a failing transaction was committed");
            } catch (KeeperException.BadVersionException expected) {
                Main.equal(2, expected.getResults().size());
            }
            Main.check(client.checkExists().forPath("/tx/e-0000000000") != null, "half a transaction was done");
            client.inTransaction().delete().forPath("/tx/e-0000000000").and().delete().forPath("/tx").and().commit();
            Main.check(client.checkExists().forPath("/tx") == null, "/tx is still there");
        }
    }

    private static void background() throws Exception {
        BlockingQueue<CuratorEvent> events = new LinkedBlockingQueue<>();
        try (CuratorFramework client = Main.client()) {
            client.create().forPath("/background");
            for (int i = 0; i < 300; i++) {
                client.create().withMode(CreateMode.PERSISTENT_SEQUENTIAL).inBackground((c, e) ->
                    events.add(e)).forPath("/background/n-");
            }
            for (int i = 0; i < 300; i++) {
                CuratorEvent event = events.poll(Main.WAIT_SECONDS, TimeUnit.SECONDS);
                Main.equal(String.format("/background/n-%010d", i), event.getName());
            }
            Main.equal(300, client.getChildren().forPath("/background").size());
            client.delete().deletingChildrenIfNeeded().forPath("/background");
            client.getData().inBackground((c, e) -> events.add(e)).forPath("/background");
            Main.equal(KeeperException.Code.NONODE.intValue(), events.poll(Main.WAIT_SECONDS,
                TimeUnit.SECONDS).getResultCode());
        }
    }

    private static void access() throws Exception {
        ACLProvider owner = new ACLProvider() {
            @Override
            public List<ACL> getDefaultAcl() {
                return ZooDefs.Ids.CREATOR_ALL_ACL;
            }

            @Override
            public List<ACL> getAclForPath(String path) {
                return ZooDefs.Ids.CREATOR_ALL_ACL;
            }
        };
        try (CuratorFramework ann = CuratorFrameworkFactory.builder().connectString(Main.server).aclProvider(owner)
            .authorization("digest", Main.bytes("ann:secret")).retryPolicy(new RetryNTimes(3, 100)).build();
            CuratorFramework other = Main.client()) {
            ann.start();
            ann.create().forPath("/secret", Main.bytes("s"));
            Main.equal("ann:7RJfAeIvrl4zdj6sS2fXrQHDvHM=", ann.getACL().forPath("/secret").get(0).getId().getId());
            try {
                other.getData().forPath("/secret");
                throw new AssertionError("a stranger may read");
            } catch (KeeperException.NoAuthException expected) {
                ann.setACL().withACL(ZooDefs.Ids.OPEN_ACL_UNSAFE).forPath("/secret");
            }
            Main.equal("s", Main.text(other.getData().forPath("/secret")));
        }
    }

    private static void persistentWatcher() throws Exception {
        BlockingQueue<WatchedEvent> events = new LinkedBlockingQueue<>();
        try (CuratorFramework client = Main.client(Main.proxy); CuratorFramework other = Main.client();
            PersistentWatcher watcher = new PersistentWatcher(client, "/pw", true)) {
            CountDownLatch set = new CountDownLatch(2); // once at the start, once after the connection was cut
            watcher.getListenable().addListener(e -> {
                if (e.getType() != EventType.None) {
                    events.add(e);
                }
            });
            watcher.getResetListenable().addListener(set::countDown);
            watcher.start();
            Main.eventually("watch is set", () -> set.getCount() == 1);
            other.create().creatingParentsIfNeeded().forPath("/pw/x");
            expect(events, EventType.NodeCreated, "/pw");
            expect(events, EventType.NodeCreated, "/pw/x");
            Main.cutConnections();
            Main.eventually("watch is set again", () -> set.getCount() == 0);
            other.setData().forPath("/pw/x", Main.bytes("after"));
            expect(events, EventType.NodeDataChanged, "/pw/x");
            other.delete().deletingChildrenIfNeeded().forPath("/pw");
            expect(events, EventType.NodeDeleted, "/pw/x");
            expect(events, EventType.NodeDeleted, "/pw");
        }
    }

    private static void expect(BlockingQueue<WatchedEvent> events, EventType type, String path) throws Exception {
        WatchedEvent event = events.poll(Main.WAIT_SECONDS, TimeUnit.SECONDS);
        Main.check(event != null, "no event, want " + type + " " + path);
        Main.equal(type + " " + path, event.getType() + " " + event.getPath());
    }

    /** The tracker reads the configuration at once and after each reconnect; a standalone server's is empty. */
    private static void ensembleTracker() throws Exception {
        try (CuratorFramework client = CuratorFrameworkFactory.builder().connectString(Main.proxy).ensembleTracker(true)
            .retryPolicy(new RetryNTimes(20, 100)).build()) {
            client.start();
            Main.equal(0, client.getConfig().forEnsemble().length);
            Main.cutConnections();
            client.create().orSetData().forPath("/tracker");
            Main.equal(Main.proxy, client.getZookeeperClient().getCurrentConnectionString());
            Main.check(client.getCurrentConfig().getAllMembers().isEmpty(), "a standalone server has members");
        }
    }

    private static void reconnect() throws Exception {
        BlockingQueue<ConnectionState> states = new LinkedBlockingQueue<>();
        try (CuratorFramework client = Main.client(Main.proxy)) {
            client.getConnectionStateListenable().addListener((c, state) -> {
                if (state != ConnectionState.CONNECTED) { // may still be on its way from the start
                    states.add(state);
                }
            });
            long id = client.getZookeeperClient().getZooKeeper().getSessionId();
            client.create().withMode(CreateMode.EPHEMERAL).forPath("/survives");
            for (int i = 0; i < 3; i++) {
                Main.cutConnections();
                Main.equal(ConnectionState.SUSPENDED, states.poll(Main.WAIT_SECONDS, TimeUnit.SECONDS));
                Main.equal(ConnectionState.RECONNECTED, states.poll(Main.WAIT_SECONDS, TimeUnit.SECONDS));
                Main.equal(id, client.checkExists().forPath("/survives").getEphemeralOwner());
            }
        }
    }
}
