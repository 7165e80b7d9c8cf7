import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderLatchListener;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.retry.RetryNTimes;

/** Recipes on several servers that are killed and started again meanwhile, for so many seconds each. */
final class Ensemble {
    static final int CLIENTS = 4;

    /** Tells, by when a part has begun, whether it is to go on. */
    interface Ending {
        boolean running(long began);
    }

    private static String hosts;
    private static int within; // seconds for all clients of a part to end
    private static Ending ending;

    private Ensemble() {}

    static void checks(Map<String, Main.Check> checks, String servers, int seconds) {
        use(servers, seconds + 3 * Main.WAIT_SECONDS,
            began -> System.nanoTime() - began < TimeUnit.SECONDS.toNanos(seconds));
        checks.put("ensemble/mutex", Ensemble::mutex);
        checks.put("ensemble/latch", Ensemble::latch);
        checks.put("ensemble/counter", Ensemble::counter);
    }

    static void use(String servers, int withinSeconds, Ending whenToEnd) {
        hosts = servers;
        within = withinSeconds;
        ending = whenToEnd;
    }

    /** A client that knows all servers, and tries again for longer than an election takes on a busy machine. */
    private static CuratorFramework client() throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder().connectString(hosts).sessionTimeoutMs(30_000)
            .connectionTimeoutMs(30_000).retryPolicy(new RetryNTimes(600, 100)).build();
        client.start();
        Main.check(client.blockUntilConnected(Main.WAIT_SECONDS, TimeUnit.SECONDS), "not connected to " + hosts);
        return client;
    }

    static boolean running(long began) {
        return ending.running(began);
    }

    interface Part {
        void run(CuratorFramework client, long began) throws Exception;
    }

    static void together(Part part) throws Exception {
        ExecutorService executor = Executors.newFixedThreadPool(CLIENTS);
        List<Future<?>> parts = new ArrayList<>();
        long began = System.nanoTime();
        for (int i = 0; i < CLIENTS; i++) {
            parts.add(executor.submit(() -> {
                try (CuratorFramework client = client()) {
                    part.run(client, began);
                }
                return null;
            }));
        }
        for (Future<?> running : parts) {
            running.get(within, TimeUnit.SECONDS);
        }
        executor.shutdown();
    }

    /** Never two inside, and every client gets its turns. */
    static void mutex() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        together((client, began) -> {
            InterProcessMutex mutex = new InterProcessMutex(client, "/ensemble/mutex");
            int turns = 0;
            while (running(began) || turns == 0) {
                Main.check(mutex.acquire(2 * Main.WAIT_SECONDS, TimeUnit.SECONDS), "not acquired");
                try {
                    Main.equal(1, inside.incrementAndGet());
                    TimeUnit.MILLISECONDS.sleep(2);
                    turns++;
                    inside.decrementAndGet();
                } finally {
                    mutex.release();
                }
            }
        });
    }

    /** A latch with the number of times that it has won or lost. */
    private static final class Candidate implements LeaderLatchListener, AutoCloseable {
        final AtomicInteger changes = new AtomicInteger();
        final CuratorFramework client;
        final LeaderLatch latch;

        Candidate(String id) throws Exception {
            client = Ensemble.client();
            latch = new LeaderLatch(client, "/ensemble/latch", id);
            latch.addListener(this);
            latch.start();
        }

        @Override
        public void isLeader() {
            changes.incrementAndGet();
        }

        @Override
        public void notLeader() {
            changes.incrementAndGet();
        }

        @Override
        public void close() throws Exception {
            latch.close();
            client.close();
        }
    }

    /** Never two leaders at one time, and always one again. */
    static void latch() throws Exception {
        try (Candidate a = new Candidate("a"); Candidate b = new Candidate("b"); Candidate c = new Candidate("c")) {
            Candidate[] all = {a, b, c};
            long began = System.nanoTime();
            long led = began;
            while (running(began)) {
                for (Candidate one : all) {
                    int before = one.changes.get();
                    if (!one.latch.hasLeadership()) {
                        continue;
                    }
                    led = System.nanoTime();
                    for (Candidate other : all) {
                        // It counts only if the first has led all the time that it took to ask the second.
                        boolean both = other != one && other.latch.hasLeadership();
                        Main.check(!both || !one.latch.hasLeadership() || one.changes.get() != before, "two leaders");
                    }
                }
                Main.check(System.nanoTime() - led < TimeUnit.SECONDS.toNanos(2 * Main.WAIT_SECONDS), "nobody leads");
                TimeUnit.MICROSECONDS.sleep(500);
            }
            Main.eventually("somebody leads at the end",
                () -> a.latch.hasLeadership() || b.latch.hasLeadership() || c.latch.hasLeadership());
        }
    }

    /** Every increment that was taken counts once. */
    private static void counter() throws Exception {
        AtomicInteger taken = new AtomicInteger();
        AtomicInteger doubtful = new AtomicInteger();
        together((client, began) -> {
            try (SharedCount count = new SharedCount(client, "/ensemble/counter", 0)) {
                count.start();
                while (running(began)) {
                    try {
                        if (count.trySetCount(count.getVersionedValue(), count.getCount() + 1)) {
                            taken.incrementAndGet();
                        }
                    } catch (Exception e) {
                        doubtful.incrementAndGet();
                    }
                    TimeUnit.MILLISECONDS.sleep(5);
                }
            }
        });
        try (CuratorFramework client = client(); SharedCount count = new SharedCount(client, "/ensemble/counter", 0)) {
            client.sync().forPath("/ensemble/counter");
            count.start();
            Main.check(count.getCount() >= taken.get(), count.getCount() + " counted, " + taken + " were taken");
        }
        Main.check(taken.get() > 0, "nothing was taken, " + doubtful + " in doubt");
    }
}
