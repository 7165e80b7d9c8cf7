package compat;

import java.io.IOException;
import java.net.Socket;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/**
 * usage: Main SERVER PROXY CUT DOOMED CLOSE: the server, a proxy to it, what cuts the proxy's connections, another proxy,
 * and what closes that one for good.
 */
public final class Main {
    static final int TIMEOUT_MILLIS = 30_000;

    static String server;
    static String proxy;
    static String doomed;
    private static String cut;
    private static String close;

    private Main() {}

    public static void main(String[] args) throws Exception {
        server = args[0];
        proxy = args[1];
        cut = args[2];
        doomed = args[3];
        close = args[4];
        Nodes.run();
        Multis.run();
        Watches.run();
        Access.run();
        Asynchronous.run();
        Sessions.run();
        Expiring.run();
        System.out.println("# end");
    }

    /** A connected client whose session events go to events. */
    static ZooKeeper connect(String address, Recorder.Events events) throws Exception {
        ZooKeeper zk = new ZooKeeper(address, TIMEOUT_MILLIS, events);
        events.await(KeeperState.SyncConnected);
        return zk;
    }

    static ZooKeeper connect(String address) throws Exception {
        return connect(address, new Recorder.Events("session"));
    }

    /** Cuts every connection through the proxy and returns when that is done. */
    static void cutConnections() throws IOException {
        ask(cut);
    }

    /** Closes the doomed proxy for good and returns when that is done. */
    static void closeDoomed() throws IOException {
        ask(close);
    }

    private static void ask(String address) throws IOException {
        int colon = address.lastIndexOf(':');
        try (Socket socket = new Socket(address.substring(0, colon), Integer.parseInt(address.substring(colon + 1)))) {
            while (socket.getInputStream().read() >= 0) {
                // nothing is sent; the end of the stream is the answer
            }
        } catch (java.net.SocketException e) {
            // closed is closed
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(java.nio.charset.StandardCharsets.UTF_8);
    }
}
