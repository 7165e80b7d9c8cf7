package zkd.standin;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.zookeeper.server.quorum.Follower;
import org.apache.zookeeper.server.quorum.Leader;
import org.apache.zookeeper.server.quorum.Observer;
import org.apache.zookeeper.server.quorum.QuorumPeer;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig;
import org.objenesis.ObjenesisStd;

/** Runs a process for a QuorumPeer, with the configuration file that this one was given, or with its fields. */
final class Peer {
  private static final long SHOWN_EVERY_MILLIS = 20;

  private static final Map<Object, Peer> all = Collections.synchronizedMap(new WeakHashMap<>());

  private final QuorumPeer peer;
  private ServerProcess process;
  private boolean stopped;

  static Peer of(Object peer) {
    return all.computeIfAbsent(peer, p -> new Peer((QuorumPeer) p));
  }

  private Peer(QuorumPeer peer) {
    this.peer = peer;
  }

  void run() throws Exception {
    synchronized (this) {
      if (stopped) {
        return;
      }
      process = new ServerProcess(config());
    }
    while (process.isAlive()) {
      show(mode());
      process.awaitEnd(SHOWN_EVERY_MILLIS);
    }
  }

  /**
   * Lets the fields show what the process does: tests look whether a peer has a leader or a follower, which has nothing
   * within it.
   */
  private synchronized void show(String mode) throws ReflectiveOperationException {
    fill("leader", mode.equals("leader") && !stopped, Leader.class);
    fill("follower", mode.equals("follower") && !stopped, Follower.class);
    fill("observer", mode.equals("observer") && !stopped, Observer.class);
  }

  private void fill(String name, boolean there, Class<?> type) throws ReflectiveOperationException {
    Field f = QuorumPeer.class.getDeclaredField(name);
    f.setAccessible(true);
    if (there != (f.get(peer) != null)) {
      f.set(peer, there ? new ObjenesisStd().newInstance(type) : null);
    }
  }

  synchronized void stop() throws InterruptedException, ReflectiveOperationException {
    stopped = true;
    show("");
    if (process != null) {
      process.stop();
    }
  }

  synchronized void suspend(boolean suspended) throws IOException, InterruptedException {
    if (process != null) {
      process.pause(suspended);
    }
  }

  Object state() {
    switch (mode()) {
      case "leader":
        return QuorumPeer.ServerState.LEADING;
      case "follower":
        return QuorumPeer.ServerState.FOLLOWING;
      case "observer":
        return QuorumPeer.ServerState.OBSERVING;
      default:
        return QuorumPeer.ServerState.LOOKING;
    }
  }

  private String mode() {
    boolean runs;
    synchronized (this) {
      runs = process != null && process.isAlive();
    }
    return runs && peer.getClientAddress() != null ? ServerProcess.mode(peer.getClientAddress()) : "";
  }

  private Path config() throws Exception {
    Field given = QuorumPeer.class.getDeclaredField("configFilename");
    given.setAccessible(true);
    String name = (String) given.get(peer);
    if (name != null && Files.exists(Path.of(name))) {
      return Path.of(name);
    }
    Path data = peer.getTxnFactory().getSnapDir().getParentFile().toPath().toAbsolutePath();
    Path logs = peer.getTxnFactory().getDataLogDir().getParentFile().toPath().toAbsolutePath();
    ServerProcess.write(data, "myid", List.of(Long.toString(peer.getMyId())));
    List<String> lines = new ArrayList<>(List.of("dataDir=" + data, "dataLogDir=" + logs,
        "tickTime=" + peer.getTickTime(), "initLimit=" + peer.getInitLimit(), "syncLimit=" + peer.getSyncLimit(),
        "admin.enableServer=false", "localSessionsEnabled=" + field("localSessionsEnabled"),
        "localSessionsUpgradingEnabled=" + peer.isLocalSessionsUpgradingEnabled(),
        "standaloneEnabled=" + QuorumPeerConfig.isStandaloneEnabled(),
        "peerType=" + peer.getLearnerType().name().toLowerCase()));
    boolean clients = false;
    for (String line : peer.getQuorumVerifier().toString().split("\n")) {
      if (line.startsWith("server.")) {
        lines.add(line);
        clients |= line.startsWith("server." + peer.getMyId() + "=") && line.contains(";");
      } else if (line.startsWith("group.") || line.startsWith("weight.")) {
        lines.add(line);
      }
    }
    if (!clients && peer.getClientAddress() != null) {
      lines.add("clientPort=" + peer.getClientAddress().getPort());
    }
    return ServerProcess.write(data, "standin.cfg", lines);
  }

  private Object field(String name) throws IOException {
    try {
      Field f = QuorumPeer.class.getDeclaredField(name);
      f.setAccessible(true);
      return f.get(peer);
    } catch (ReflectiveOperationException e) {
      throw new IOException(e);
    }
  }
}
