package zkd.standin;

import java.io.IOException;
import java.lang.reflect.Method;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.zookeeper.server.ServerCnxn;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/** Listens for clients by a process, for a ZooKeeperServer that says where its data is and is never started itself. */
public final class ProcessFactory extends ServerCnxnFactory {
  /** What each server's process listens at: a server may have a factory for TLS beside the plain one. */
  private static final Map<ZooKeeperServer, ProcessFactory[]> factories = new HashMap<>();

  private final ServerSocketChannel ss; // Curator's TestingZooKeeperMain closes what has this name
  private InetSocketAddress address;
  private ServerProcess process;

  ProcessFactory() throws IOException {
    ss = ServerSocketChannel.open();
  }

  @Override
  public void configure(InetSocketAddress address, int maxClients, int backlog, boolean secure) throws IOException {
    int port = address.getPort();
    try (ServerSocket free = new ServerSocket()) { // the error is the test's, as the port's number is
      free.setReuseAddress(true);
      free.bind(address);
      port = free.getLocalPort();
    }
    this.address = new InetSocketAddress(address.getAddress(), port);
    this.maxClientCnxns = maxClients;
    this.secure = secure;
  }

  private int maxClientCnxns = 60;

  @Override
  public void startup(ZooKeeperServer server, boolean whole) throws IOException, InterruptedException {
    setZooKeeperServer(server);
    synchronized (factories) {
      ProcessFactory[] both = factories.computeIfAbsent(server, s -> new ProcessFactory[2]);
      ProcessFactory other = both[secure ? 0 : 1];
      both[secure ? 1 : 0] = this;
      if (other != null && other.process != null) {
        other.process.stop();
      }
      process = new ServerProcess(config(server, both));
      if (other != null) {
        other.process = process;
      }
    }
    process.awaitPort(address);
    noteStartup(server);
  }

  private static Path config(ZooKeeperServer server, ProcessFactory[] both) throws IOException {
    Path data = server.getTxnLogFactory().getSnapDir().getParentFile().toPath().toAbsolutePath();
    Path logs = server.getTxnLogFactory().getDataLogDir().getParentFile().toPath().toAbsolutePath();
    List<String> lines = new ArrayList<>(List.of("dataDir=" + data, "dataLogDir=" + logs,
        "tickTime=" + server.getTickTime(), "admin.enableServer=false",
        "minSessionTimeout=" + server.getMinSessionTimeout(), "maxSessionTimeout=" + server.getMaxSessionTimeout()));
    for (ProcessFactory f : both) {
      if (f != null) {
        String name = f.secure ? "secureClientPort" : "clientPort";
        lines.add(name + "=" + f.address.getPort());
        lines.add(name + "Address=" + f.address.getAddress().getHostAddress());
        lines.add("maxClientCnxns=" + f.maxClientCnxns);
      }
    }
    return ServerProcess.write(data, "standin.cfg", lines);
  }

  /** Curator's TestZooKeeperServer has who waits for it. */
  private static void noteStartup(ZooKeeperServer server) throws IOException {
    try {
      Method note = server.getClass().getMethod("noteStartup");
      synchronized (server) {
        note.setAccessible(true);
        note.invoke(server);
      }
    } catch (NoSuchMethodException none) {
      // nobody waits
    } catch (ReflectiveOperationException e) {
      throw new IOException(e);
    }
  }

  @Override
  public void shutdown() {
    synchronized (factories) {
      factories.remove(zkServer);
    }
    end(false);
    ended();
  }

  /** Has the server say that it was shut down: the thread that has started it waits for that. */
  private void ended() {
    if (zkServer == null) {
      return;
    }
    try {
      Class<?> state = Class.forName("org.apache.zookeeper.server.ZooKeeperServer$State");
      Method set = ZooKeeperServer.class.getDeclaredMethod("setState", state);
      set.setAccessible(true);
      for (Object each : state.getEnumConstants()) {
        if (each.toString().equals("SHUTDOWN")) {
          set.invoke(zkServer, each);
        }
      }
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public void closeAll(ServerCnxn.DisconnectReason reason) {
    end(true);
  }

  private void end(boolean abruptly) {
    if (process == null) {
      return;
    }
    try {
      if (abruptly) {
        process.kill();
      } else {
        process.stop();
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public int getLocalPort() {
    return address == null ? -1 : address.getPort();
  }

  @Override
  public InetSocketAddress getLocalAddress() {
    return address;
  }

  @Override
  public void join() throws InterruptedException {
    if (process != null) {
      process.awaitEnd();
    }
  }

  @Override
  public int getMaxClientCnxnsPerHost() {
    return maxClientCnxns;
  }

  @Override
  public void setMaxClientCnxnsPerHost(int max) {
    maxClientCnxns = max;
  }

  @Override
  public Iterable<ServerCnxn> getConnections() {
    return new ArrayList<>();
  }

  @Override
  public int getSocketListenBacklog() {
    return -1;
  }

  @Override
  public void reconfigure(InetSocketAddress address) {}

  @Override
  public void start() {}

  @Override
  public void resetAllConnectionStats() {}

  @Override
  public Iterable<Map<String, Object>> getAllConnectionInfo(boolean brief) {
    return new ArrayList<>();
  }
}
