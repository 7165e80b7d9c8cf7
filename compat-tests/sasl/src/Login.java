import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import javax.security.auth.login.Configuration;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.client.ZKClientConfig;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;
import org.apache.zookeeper.data.Id;

/** Logs in with each section of the login configuration, and prints what it may do then. */
public final class Login {
    private static final int SESSION_MS = 40_000;
    private static final long WAIT_SECONDS = 100;
    private static final String[] SECTIONS = {"Bob", "Root", "Alice", "Wrong", "Nobody", null};

    private Login() {}

    interface Call {
        Object run() throws Exception;
    }

    public static void main(String[] addresses) throws Exception {
        for (String address : addresses) {
            System.out.println("# server " + (address.equals(addresses[0]) ? "as it is" : "that demands SASL"));
            for (String section : SECTIONS) {
                if (section == null || Configuration.getConfiguration().getAppConfigurationEntry(section) != null) {
                    client(address, section, !address.equals(addresses[0]));
                }
            }
        }
        curator(addresses[addresses.length - 1], "Bob");
        System.exit(0);
    }

    /** Runs one call and prints its result or its error code. */
    private static void call(String name, Call body) {
        Object shown;
        try {
            shown = body.run();
        } catch (KeeperException e) {
            shown = e.code();
        } catch (Exception e) {
            shown = e.getClass().getSimpleName();
        }
        System.out.println(name + ": " + shown);
    }

    private static ZKClientConfig config(String section) {
        ZKClientConfig config = new ZKClientConfig();
        config.setProperty("zookeeper.fips-mode", "false");
        config.setProperty(ZKClientConfig.ENABLE_CLIENT_SASL_KEY, section == null ? "false" : "true");
        if (section != null) {
            config.setProperty(ZKClientConfig.LOGIN_CONTEXT_NAME_KEY, section);
        }
        return config;
    }

    private static void client(String address, String section, boolean enforced) throws Exception {
        System.out.println("## Java client, login " + section);
        LinkedBlockingQueue<Watcher.Event.KeeperState> states = new LinkedBlockingQueue<>();
        Watcher watcher = (WatchedEvent event) -> states.add(event.getState());
        try (ZooKeeper zk = new ZooKeeper(address, SESSION_MS, watcher, config(section))) {
            Watcher.Event.KeeperState state;
            EnumSet<Watcher.Event.KeeperState> settled = EnumSet.of( // before it, Netty may lose the connection first
                    Watcher.Event.KeeperState.AuthFailed, Watcher.Event.KeeperState.SaslAuthenticated);
            EnumSet<Watcher.Event.KeeperState> shown = EnumSet.of(Watcher.Event.KeeperState.Disconnected);
            do { // a client without a login is told no more than that it is connected
                state = states.poll(WAIT_SECONDS, TimeUnit.SECONDS);
                if (state == null || shown.add(state)) {
                    System.out.println("state " + state);
                }
            } while (section != null && state != null && !settled.contains(state));
            if (state == Watcher.Event.KeeperState.AuthFailed || section == null && enforced) {
                call("exists", () -> zk.exists("/", false) != null); // the connection ends with it
            } else {
                uses(zk, section);
            }
        }
    }

    private static void uses(ZooKeeper zk, String section) {
        call("whoAmI", () -> show(zk.whoAmI()));
        List<ACL> bobs = Collections.singletonList(new ACL(ZooDefs.Perms.ALL, new Id("sasl", "bob")));
        call("create of the caller", () ->
                zk.create("/" + section, new byte[0], ZooDefs.Ids.CREATOR_ALL_ACL, CreateMode.PERSISTENT));
        call("getACL", () -> zk.getACL("/" + section, null).stream()
                .map(acl -> acl.getId().getScheme() + ":" + acl.getId().getId()).collect(Collectors.toList()));
        call("create of bob", () -> zk.create("/bobs", new byte[0], bobs, CreateMode.PERSISTENT));
        call("read of bob", () -> zk.getData("/bobs", false, null).length);
        call("write of Bob", () -> zk.setData("/Bob", new byte[0], -1).getVersion() > 0);
    }

    private static String show(List<ClientInfo> infos) {
        return infos.stream().map(info -> info.getAuthScheme() + ":" + info.getUser()).sorted()
                .collect(Collectors.joining(" "));
    }

    private static void curator(String address, String section) throws Exception {
        System.out.println("## Curator, login " + section);
        CuratorFramework curator = CuratorFrameworkFactory.builder().connectString(address)
                .retryPolicy(new RetryOneTime(1000)).sessionTimeoutMs(SESSION_MS)
                .zkClientConfig(config(section)).build();
        try (curator) {
            curator.start();
            System.out.println("connected " + curator.blockUntilConnected((int) WAIT_SECONDS, TimeUnit.SECONDS));
            call("create", () -> curator.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath("/curator"));
            call("getACL", () -> curator.getACL().forPath("/curator").stream()
                    .map(acl -> acl.getId().getScheme() + ":" + acl.getId().getId()).collect(Collectors.toList()));
        }
    }
}
