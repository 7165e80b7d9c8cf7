import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** Locks, semaphores, barriers. */
final class Locks {
    private Locks() {}

    static void checks(Map<String, Main.Check> checks) {
        checks.put("locks/mutex", Locks::mutex);
        checks.put("locks/mutex-over-a-cut", Locks::mutexOverCut);
        checks.put("locks/shell", Locks::shell);
        checks.put("locks/read-write", Locks::readWrite);
        checks.put("locks/semaphore", Locks::semaphore);
        checks.put("locks/semaphore-mutex", Locks::semaphoreMutex);
        checks.put("locks/multi", Locks::multi);
        checks.put("locks/barrier", Locks::barrier);
        checks.put("locks/double-barrier", Locks::doubleBarrier);
    }

    /** Four clients of their own, ten turns each, never two inside. */
    private static void mutex() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger turns = new AtomicInteger();
        together(4, client -> {
            InterProcessMutex mutex = new InterProcessMutex(client, "/locks/mutex");
            for (int i = 0; i < 10; i++) {
                Main.check(mutex.acquire(Main.WAIT_SECONDS, TimeUnit.SECONDS), "not acquired");
                mutex.acquire(); // reentrant
                Main.equal(1, inside.incrementAndGet());
                turns.incrementAndGet();
                inside.decrementAndGet();
                mutex.release();
                mutex.release();
            }
        });
        Main.equal(40, turns.get());
    }

    private static void mutexOverCut() throws Exception {
        try (CuratorFramework client = Main.client(Main.proxy); CuratorFramework other = Main.client()) {
            InterProcessMutex mutex = new InterProcessMutex(client, "/locks/cut");
            mutex.acquire();
            Main.cutConnections();
            InterProcessMutex second = new InterProcessMutex(other, "/locks/cut");
            Main.check(!second.acquire(300, TimeUnit.MILLISECONDS), "the lock was lost with the connection");
            mutex.release();
            Main.check(second.acquire(Main.WAIT_SECONDS, TimeUnit.SECONDS), "the lock was not passed on");
            second.release();
        }
    }

    /** zkd cli lock and a mutex: neither is let in while the other one is. */
    private static void shell() throws Exception {
        try (CuratorFramework client = Main.client()) {
            InterProcessMutex mutex = new InterProcessMutex(client, "/locks/shell");
            mutex.acquire();
            Main.equal(1, Main.shell("lock", "-t", "0.3", "/locks/shell", "--", "true").waitFor());
            mutex.release();
            Process holder = Main.shell("lock", "/locks/shell", "--", "cat"); // until its input ends
            Main.eventually("the shell has the lock",
                () -> Main.hasChildren(client, "/locks/shell"));
            Main.check(!mutex.acquire(300, TimeUnit.MILLISECONDS), "acquired though the shell has it");
            holder.getOutputStream().close();
            Main.equal(0, holder.waitFor());
            Main.check(mutex.acquire(Main.WAIT_SECONDS, TimeUnit.SECONDS), "not passed on");
            mutex.release();
        }
    }

    private static void readWrite() throws Exception {
        try (CuratorFramework a = Main.client(); CuratorFramework b = Main.client()) {
            InterProcessReadWriteLock one = new InterProcessReadWriteLock(a, "/locks/rw");
            InterProcessReadWriteLock two = new InterProcessReadWriteLock(b, "/locks/rw");
            one.readLock().acquire();
            Main.check(two.readLock().acquire(Main.WAIT_SECONDS, TimeUnit.SECONDS), "readers exclude each other");
            Main.check(!two.writeLock().acquire(200, TimeUnit.MILLISECONDS), "a writer came in beside readers");
            two.readLock().release();
            one.readLock().release();
            Main.check(two.writeLock().acquire(Main.WAIT_SECONDS, TimeUnit.SECONDS), "the writer is shut out");
            Main.check(!one.readLock().acquire(200, TimeUnit.MILLISECONDS), "a reader came in beside a writer");
            two.readLock().acquire(); // a writer may also read
            two.writeLock().release();
            two.readLock().release();
        }
    }

    private static void semaphore() throws Exception {
        AtomicInteger inside = new AtomicInteger();
        together(4, client -> {
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, "/locks/semaphore", 2);
            for (int i = 0; i < 5; i++) {
                Lease lease = semaphore.acquire(Main.WAIT_SECONDS, TimeUnit.SECONDS);
                Main.check(lease != null, "no lease");
                Main.check(inside.incrementAndGet() <= 2, "more than two inside");
                inside.decrementAndGet();
                semaphore.returnLease(lease);
            }
        });
    }

    private static void semaphoreMutex() throws Exception {
        try (CuratorFramework a = Main.client(); CuratorFramework b = Main.client()) {
            InterProcessSemaphoreMutex one = new InterProcessSemaphoreMutex(a, "/locks/sm");
            InterProcessSemaphoreMutex two = new InterProcessSemaphoreMutex(b, "/locks/sm");
            one.acquire();
            Main.check(!two.acquire(200, TimeUnit.MILLISECONDS), "two inside");
            one.release();
            Main.check(two.acquire(Main.WAIT_SECONDS, TimeUnit.SECONDS), "not passed on");
            two.release();
        }
    }

    private static void multi() throws Exception {
        try (CuratorFramework a = Main.client(); CuratorFramework b = Main.client()) {
            InterProcessMultiLock both = new InterProcessMultiLock(a, List.of("/locks/m1", "/locks/m2"));
            InterProcessMutex second = new InterProcessMutex(b, "/locks/m2");
            second.acquire();
            Main.check(!both.acquire(200, TimeUnit.MILLISECONDS), "acquired though one is taken");
            second.release();
            Main.check(both.acquire(Main.WAIT_SECONDS, TimeUnit.SECONDS), "not acquired");
            both.release();
        }
    }

    private static void barrier() throws Exception {
        try (CuratorFramework a = Main.client(); CuratorFramework b = Main.client()) {
            DistributedBarrier barrier = new DistributedBarrier(a, "/locks/barrier");
            barrier.setBarrier();
            Main.check(!new DistributedBarrier(b, "/locks/barrier").waitOnBarrier(200, TimeUnit.MILLISECONDS),
                "not held back");
            ExecutorService executor = Executors.newSingleThreadExecutor();
            Future<Boolean> passed = executor.submit(
                () -> new DistributedBarrier(b, "/locks/barrier").waitOnBarrier(Main.WAIT_SECONDS, TimeUnit.SECONDS));
            barrier.removeBarrier();
            Main.check(passed.get(), "held back for good");
            executor.shutdown();
        }
    }

    private static void doubleBarrier() throws Exception {
        AtomicInteger entered = new AtomicInteger();
        CountDownLatch left = new CountDownLatch(3);
        together(3, client -> {
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(client, "/locks/double", 3);
            entered.incrementAndGet();
            Main.check(barrier.enter(Main.WAIT_SECONDS, TimeUnit.SECONDS), "not entered");
            Main.equal(3, entered.get());
            Main.check(barrier.leave(Main.WAIT_SECONDS, TimeUnit.SECONDS), "not left");
            left.countDown();
        });
        Main.equal(0L, left.getCount());
    }

    interface Part {
        void run(CuratorFramework client) throws Exception;
    }

    /** Runs a part in as many threads, each with a client of its own. */
    static void together(int count, Part part) throws Exception {
        ExecutorService executor = Executors.newFixedThreadPool(count);
        List<Future<?>> parts = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            parts.add(executor.submit(() -> {
                try (CuratorFramework client = Main.client()) {
                    part.run(client);
                }
                return null;
            }));
        }
        for (Future<?> running : parts) {
            running.get(2 * Main.WAIT_SECONDS, TimeUnit.SECONDS);
        }
        executor.shutdown();
    }
}
