package zkd.standin;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig;

/** One process of the server under test. */
final class ServerProcess {
  private static final long UP_WITHIN_MILLIS = 30_000;
  private static final long STOP_WITHIN_SECONDS = 30;

  private final Process process;

  /** Starts one with a configuration. What it logs goes where the test's own log goes. */
  ServerProcess(Path config) throws IOException {
    ProcessBuilder b = new ProcessBuilder(System.getProperty("standin.server"), "serve", config.toString());
    b.environment().put("SERVER_JVMFLAGS", Properties.set() + Logins.flag(config.toAbsolutePath().getParent()));
    // Tests name classes of their own. One for certificates is refused as it is without this: x509 is not what is meant.
    boolean certificates = System.getProperty("zookeeper.ssl.authProvider") != null;
    b.environment().put("ZKD_IGNORE_UNKNOWN_PROVIDERS", Boolean.toString(!certificates));
    b.environment().put("ZKD_RECONFIG_ENABLED", Boolean.toString(QuorumPeerConfig.isReconfigEnabled()));
    b.environment().put("ZKD_DISK_RESERVE", "0"); // a test may have dozens of directories
    b.redirectErrorStream(true);
    b.redirectOutput(ProcessBuilder.Redirect.appendTo(Path.of(System.getProperty("standin.log")).toFile()));
    process = b.start();
    Main.started();
    Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
  }

  /** Waits until a port answers, or the process has ended. */
  void awaitPort(InetSocketAddress address) throws IOException, InterruptedException {
    long end = System.currentTimeMillis() + UP_WITHIN_MILLIS;
    while (process.isAlive() && System.currentTimeMillis() < end) {
      try (Socket s = new Socket()) {
        s.connect(reachable(address), 1000);
        return;
      } catch (IOException notYet) {
        Thread.sleep(20);
      }
    }
    throw new IOException(process.isAlive() ? "the server does not listen at " + address
        : "the server has ended with " + process.exitValue());
  }

  void awaitEnd() throws InterruptedException {
    process.waitFor();
  }

  void awaitEnd(long millis) throws InterruptedException {
    process.waitFor(millis, TimeUnit.MILLISECONDS);
  }

  boolean isAlive() {
    return process.isAlive();
  }

  /** Stops it as a service manager does. */
  void stop() throws InterruptedException {
    process.destroy();
    if (!process.waitFor(STOP_WITHIN_SECONDS, TimeUnit.SECONDS)) {
      kill();
    }
  }

  /** Stops it where it is, or has it go on. */
  void pause(boolean paused) throws IOException, InterruptedException {
    new ProcessBuilder("kill", paused ? "-STOP" : "-CONT", Long.toString(process.pid())).start().waitFor();
  }

  void kill() throws InterruptedException {
    process.destroyForcibly().waitFor();
  }

  /** The mode that a server tells, as "leader"; "" if it does not serve. */
  static String mode(InetSocketAddress address) {
    try (Socket s = new Socket()) {
      s.connect(reachable(address), 1000);
      s.setSoTimeout(2000);
      s.getOutputStream().write("srvr".getBytes(StandardCharsets.US_ASCII));
      String text = text(s.getInputStream());
      return text.lines().filter(l -> l.startsWith("Mode: ")).map(l -> l.substring(6)).findFirst().orElse("");
    } catch (IOException e) {
      return "";
    }
  }

  private static String text(InputStream in) throws IOException {
    return new String(in.readAllBytes(), StandardCharsets.UTF_8);
  }

  private static InetSocketAddress reachable(InetSocketAddress a) {
    boolean any = a.getAddress() == null || a.getAddress().isAnyLocalAddress();
    return any ? new InetSocketAddress(InetAddress.getLoopbackAddress(), a.getPort()) : a;
  }

  /** Writes a configuration beside the data that it is about. */
  static Path write(Path dir, String name, List<String> lines) throws IOException {
    Files.createDirectories(dir);
    return Files.write(dir.resolve(name), lines);
  }
}
