import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;

/** Elections. */
final class Leaders {
    private Leaders() {}

    static void checks(Map<String, Main.Check> checks) {
        checks.put("leaders/latch", Leaders::latch);
        checks.put("leaders/latch-over-a-cut", Leaders::latchOverCut);
        checks.put("leaders/selector", Leaders::selector);
        checks.put("leaders/shell", Leaders::shell);
    }

    private static void latch() throws Exception {
        try (CuratorFramework a = Main.client(); CuratorFramework b = Main.client()) {
            LeaderLatch one = new LeaderLatch(a, "/leaders/latch", "one");
            one.start();
            Main.check(one.await(Main.WAIT_SECONDS, TimeUnit.SECONDS), "one never leads");
            try (LeaderLatch two = new LeaderLatch(b, "/leaders/latch", "two")) {
                two.start();
                Main.eventually("both take part", () -> one.getParticipants().size() == 2);
                Main.check(!two.hasLeadership(), "two leaders");
                Main.equal("one", two.getLeader().getId());
                one.close();
                Main.check(two.await(Main.WAIT_SECONDS, TimeUnit.SECONDS), "two never leads");
            }
        }
    }

    /** zkd cli elect and a latch: neither leads while the other one does. */
    private static void shell() throws Exception {
        try (CuratorFramework a = Main.client(); CuratorFramework b = Main.client()) {
            LeaderLatch latch = new LeaderLatch(a, "/leaders/shell", "one");
            latch.start();
            Main.check(latch.await(Main.WAIT_SECONDS, TimeUnit.SECONDS), "never leads");
            Main.equal(1, Main.shell("elect", "-t", "0.3", "/leaders/shell", "--", "true").waitFor());
            latch.close();
            Process leader = Main.shell("elect", "/leaders/shell", "--", "cat"); // until its input ends
            Main.eventually("the shell leads", () -> Main.hasChildren(a, "/leaders/shell"));
            try (LeaderLatch next = new LeaderLatch(b, "/leaders/shell", "two")) {
                next.start();
                Main.check(!next.await(300, TimeUnit.MILLISECONDS), "leads though the shell does");
                leader.getOutputStream().close();
                Main.equal(0, leader.waitFor());
                Main.check(next.await(Main.WAIT_SECONDS, TimeUnit.SECONDS), "not passed on");
            }
        }
    }

    private static void latchOverCut() throws Exception {
        try (CuratorFramework a = Main.client(Main.proxy)) {
            try (LeaderLatch latch = new LeaderLatch(a, "/leaders/cut", "one")) {
                latch.start();
                Main.check(latch.await(Main.WAIT_SECONDS, TimeUnit.SECONDS), "never leads");
                Main.cutConnections();
                Main.eventually("leadership is given up", () -> !latch.hasLeadership());
                Main.eventually("leadership is back", latch::hasLeadership);
            }
        }
    }

    /** Three selectors take turns; never two at once. */
    private static void selector() throws Exception {
        AtomicInteger leading = new AtomicInteger();
        Semaphore turns = new Semaphore(0);
        Locks.together(3, client -> {
            Semaphore mine = new Semaphore(0);
            try (LeaderSelector selector = new LeaderSelector(client, "/leaders/selector",
                new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework c) {
                    Main.equal(1, leading.incrementAndGet());
                    turns.release();
                    leading.decrementAndGet();
                    mine.release(); // the client may be closed from now on, and another one lead
                }
            })) {
                selector.autoRequeue();
                selector.start();
                Main.check(mine.tryAcquire(2, Main.WAIT_SECONDS, TimeUnit.SECONDS), "did not lead twice");
            }
        });
        Main.check(turns.availablePermits() >= 6, "fewer than six turns");
    }
}
