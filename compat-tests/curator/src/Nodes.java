import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.x.discovery.ServiceDiscovery;
import org.apache.curator.x.discovery.ServiceDiscoveryBuilder;
import org.apache.curator.x.discovery.ServiceInstance;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.data.Stat;

/** Nodes that come back, groups, service discovery. */
final class Nodes {
    private Nodes() {}

    static void checks(Map<String, Main.Check> checks) {
        checks.put("nodes/persistent-node", Nodes::persistentNode);
        checks.put("nodes/persistent-ttl-node", Nodes::persistentTtlNode);
        checks.put("nodes/group-member", Nodes::groupMember);
        checks.put("nodes/service-discovery", Nodes::serviceDiscovery);
    }

    private static void persistentNode() throws Exception {
        try (CuratorFramework client = Main.client(Main.proxy); CuratorFramework other = Main.client()) {
            try (PersistentNode node = new PersistentNode(client, CreateMode.EPHEMERAL, true, "/nodes/p",
                Main.bytes("mine"))) {
                node.start();
                Main.check(node.waitForInitialCreate(Main.WAIT_SECONDS, TimeUnit.SECONDS), "never created");
                String path = node.getActualPath();
                Main.equal("mine", Main.text(other.getData().forPath(path)));
                other.delete().forPath(path);
                Main.eventually("it comes back", () -> other.checkExists().forPath(node.getActualPath()) != null);
                Main.cutConnections();
                node.setData(Main.bytes("changed"));
                Main.eventually("its data follow",
                    () -> other.checkExists().forPath(node.getActualPath()) != null
                        && Main.text(other.getData().forPath(node.getActualPath())).equals("changed"));
            }
            Main.eventually("it goes with its owner", () -> other.checkExists().forPath("/nodes") == null
                || other.getChildren().forPath("/nodes").isEmpty());
        }
    }

    private static void persistentTtlNode() throws Exception {
        try (CuratorFramework client = Main.client()) {
            PersistentTtlNode node = new PersistentTtlNode(client, "/nodes/ttl", 1_000, Main.bytes("alive"));
            node.start();
            Main.check(node.waitForInitialCreate(Main.WAIT_SECONDS, TimeUnit.SECONDS), "never created");
            String touched = "/nodes/ttl/" + PersistentTtlNode.DEFAULT_CHILD_NODE_NAME;
            Main.eventually("its child keeps it", () -> {
                Stat stat = client.checkExists().forPath(touched);
                return stat != null && stat.getVersion() >= 2;
            });
            node.close();
            Main.eventually("it expires", () -> client.checkExists().forPath("/nodes/ttl") == null);
        }
    }

    private static void groupMember() throws Exception {
        try (CuratorFramework a = Main.client(); CuratorFramework b = Main.client();
            GroupMember one = new GroupMember(a, "/nodes/group", "one")) {
            one.start();
            try (GroupMember two = new GroupMember(b, "/nodes/group", "two", Main.bytes("payload"))) {
                two.start();
                Main.eventually("two members", () -> one.getCurrentMembers().size() == 2);
                Main.equal("payload", Main.text(one.getCurrentMembers().get("two")));
            }
            Main.eventually("one member", () -> one.getCurrentMembers().size() == 1);
        }
    }

    private static void serviceDiscovery() throws Exception {
        ServiceInstance<Void> instance = ServiceInstance.<Void>builder().name("store").address("127.0.0.1")
            .port(8080).build();
        try (CuratorFramework client = Main.client();
            ServiceDiscovery<Void> discovery = ServiceDiscoveryBuilder.builder(Void.class).client(client)
                .basePath("/nodes/services").thisInstance(instance).build()) {
            discovery.start();
            Main.equal(List.of("store"), List.copyOf(discovery.queryForNames()));
            Main.equal(8080, discovery.queryForInstances("store").iterator().next().getPort());
            discovery.unregisterService(instance);
            Main.check(discovery.queryForInstances("store").isEmpty(), "still registered");
        }
    }
}
