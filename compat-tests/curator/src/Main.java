import java.io.IOException;
import java.net.Socket;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.RetryNTimes;

/**
 * usage: Main SERVER PROXY CUT, or Main SERVERS SECONDS for recipes on an ensemble, or Main rolling SERVERS READY STOP
 * for what goes on while servers are restarted: from when it makes the file READY until there is a file STOP. Prints
 * "PASS name" or "FAIL name: why" for every check; exits with 1 if one failed.
 */
public final class Main {
    static final int WAIT_SECONDS = 60; // for what takes no time, but on a machine that stands still

    static String server;
    static String proxy;
    private static String cut;

    /** Starts zkd cli, whose program the variable ZKD_SHELL names, with a command. */
    static Process shell(String... command) throws IOException {
        List<String> words = new ArrayList<>(List.of(System.getenv("ZKD_SHELL"), "cli", "-q", "-server", server));
        words.addAll(List.of(command));
        return new ProcessBuilder(words).redirectError(ProcessBuilder.Redirect.INHERIT)
            .redirectOutput(ProcessBuilder.Redirect.DISCARD).start();
    }

    interface Check {
        void run() throws Exception;
    }

    private Main() {}

    public static void main(String[] args) throws Exception {
        Map<String, Check> checks = new LinkedHashMap<>();
        int within = 2 * WAIT_SECONDS;
        boolean atOnce = args[0].equals("rolling");
        if (atOnce) {
            within = Rolling.WITHIN_SECONDS;
            Rolling.checks(checks, args[1], Path.of(args[2]), Path.of(args[3]));
        } else if (args.length == 2) {
            int seconds = Integer.parseInt(args[1]);
            within = seconds + 4 * WAIT_SECONDS;
            Ensemble.checks(checks, args[0], seconds);
        } else {
            server = args[0];
            proxy = args[1];
            cut = args[2];
            Framework.checks(checks);
            Locks.checks(checks);
            Leaders.checks(checks);
            Values.checks(checks);
            Caches.checks(checks);
            Nodes.checks(checks);
        }
        System.exit(run(checks, within, atOnce) == 0 ? 0 : 1);
    }

    /** Runs the checks, one after the other or at once, and returns how many have failed. */
    private static int run(Map<String, Check> checks, int withinSeconds, boolean atOnce) throws InterruptedException {
        ExecutorService executor = Executors.newCachedThreadPool(r -> {
            Thread thread = new Thread(r);
            thread.setDaemon(true);
            return thread;
        });
        Map<String, Future<?>> begun = new LinkedHashMap<>();
        int failed = 0;
        for (Map.Entry<String, Check> check : checks.entrySet()) {
            begun.put(check.getKey(), executor.submit(() -> {
                check.getValue().run();
                return null;
            }));
            if (!atOnce) {
                failed += outcomes(begun, withinSeconds);
                begun.clear();
            }
        }
        return failed + outcomes(begun, withinSeconds);
    }

    /** Prints how checks that have begun end, and returns how many have failed. */
    private static int outcomes(Map<String, Future<?>> begun, int withinSeconds) throws InterruptedException {
        long start = System.nanoTime();
        int failed = 0;
        for (Map.Entry<String, Future<?>> check : begun.entrySet()) {
            try {
                check.getValue().get(withinSeconds, TimeUnit.SECONDS);
                System.out.println("PASS " + check.getKey() + " "
                    + TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start) + " ms");
            } catch (ExecutionException | TimeoutException e) {
                failed++;
                Throwable cause = e.getCause() == null ? e : e.getCause();
                System.out.println("FAIL " + check.getKey() + ": " + cause.toString().replace('\n', ' '));
                cause.printStackTrace();
            }
        }
        return failed;
    }

    /** A started client of its own in a namespace that is the check's. */
    static CuratorFramework client(String address) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder().connectString(address).sessionTimeoutMs(30_000)
            .connectionTimeoutMs(30_000).retryPolicy(new RetryNTimes(300, 100)).build();
        client.start();
        if (!client.blockUntilConnected(WAIT_SECONDS, TimeUnit.SECONDS)) {
            throw new AssertionError("not connected to " + address);
        }
        return client;
    }

    static CuratorFramework client() throws Exception {
        return client(server);
    }

    static void cutConnections() throws IOException {
        int colon = cut.lastIndexOf(':');
        try (Socket socket = new Socket(cut.substring(0, colon), Integer.parseInt(cut.substring(colon + 1)))) {
            while (socket.getInputStream().read() >= 0) {
                // nothing is sent; the end of the stream is the answer
            }
        } catch (java.net.SocketException e) {
            // closed is closed
        }
    }

    static void check(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
    }

    static void equal(Object want, Object got) {
        check(Objects.equals(want, got), "want " + want + ", got " + got);
    }

    /** Waits until the condition holds. */
    static void eventually(String what, Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
        while (!condition.call()) {
            check(System.nanoTime() < deadline, "never: " + what);
            TimeUnit.MILLISECONDS.sleep(10);
        }
    }

    /** Tells whether a container has children: one that is empty may have been removed. */
    static boolean hasChildren(CuratorFramework client, String path) throws Exception {
        var stat = client.checkExists().forPath(path);
        return stat != null && stat.getNumChildren() > 0;
    }

    static byte[] bytes(String text) {
        return text.getBytes(java.nio.charset.StandardCharsets.UTF_8);
    }

    static String text(byte[] data) {
        return new String(data, java.nio.charset.StandardCharsets.UTF_8);
    }
}
