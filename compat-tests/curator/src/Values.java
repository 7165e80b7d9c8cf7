import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicValue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.VersionedValue;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryNTimes;

/** Counters and queues. */
final class Values {
    private Values() {}

    static void checks(Map<String, Main.Check> checks) {
        checks.put("values/atomic-long", Values::atomicLong);
        checks.put("values/atomic-value", Values::atomicValue);
        checks.put("values/shared-count", Values::sharedCount);
        checks.put("values/queue", Values::queue);
        checks.put("values/simple-queue", Values::simpleQueue);
    }

    private static void atomicLong() throws Exception {
        Locks.together(4, client -> {
            DistributedAtomicLong number = new DistributedAtomicLong(client, "/values/long", new RetryNTimes(1000, 1));
            for (int i = 0; i < 25; i++) {
                Main.check(number.increment().succeeded(), "increment failed");
            }
        });
        try (CuratorFramework client = Main.client()) {
            Main.equal(100L, new DistributedAtomicLong(client, "/values/long", new RetryNTimes(3,
                1)).get().postValue());
        }
    }

    private static void atomicValue() throws Exception {
        try (CuratorFramework client = Main.client()) {
            DistributedAtomicValue value = new DistributedAtomicValue(client, "/values/value", new RetryNTimes(3, 1));
            Main.check(value.initialize(Main.bytes("1")), "not initialized");
            Main.check(!value.initialize(Main.bytes("2")), "initialized twice");
            AtomicValue<byte[]> swapped = value.compareAndSet(Main.bytes("1"), Main.bytes("3"));
            Main.check(swapped.succeeded(), "not swapped");
            Main.check(!value.compareAndSet(Main.bytes("1"), Main.bytes("4")).succeeded(), "swapped against the value");
            Main.equal("3", Main.text(value.get().postValue()));
        }
    }

    private static void sharedCount() throws Exception {
        try (CuratorFramework a = Main.client(); CuratorFramework b = Main.client();
            SharedCount one = new SharedCount(a, "/values/count", 5); SharedCount two = new SharedCount(b,
                "/values/count", 9)) {
            one.start();
            two.start();
            Main.equal(5, two.getCount());
            VersionedValue<Integer> before = one.getVersionedValue();
            Main.check(one.trySetCount(before, 6), "not set");
            Main.eventually("the other sees it", () -> two.getCount() == 6);
            Main.check(!two.trySetCount(before, 7), "set against the version");
        }
    }

    private static void queue() throws Exception {
        BlockingQueue<String> consumed = new LinkedBlockingQueue<>();
        QueueConsumer<String> consumer = new QueueConsumer<>() {
            @Override
            public void consumeMessage(String message) {
                consumed.add(message);
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {
                // nothing hangs on it
            }
        };
        QueueSerializer<String> serializer = new QueueSerializer<>() {
            @Override
            public byte[] serialize(String item) {
                return Main.bytes(item);
            }

            @Override
            public String deserialize(byte[] bytes) {
                return Main.text(bytes);
            }
        };
        try (CuratorFramework client = Main.client();
            DistributedQueue<String> queue = QueueBuilder.builder(client, consumer, serializer, "/values/queue")
                .lockPath("/values/queue-locks").buildQueue()) {
            queue.start();
            List<String> wanted = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                queue.put("item " + i);
                wanted.add("item " + i);
            }
            List<String> got = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                got.add(consumed.poll(Main.WAIT_SECONDS, TimeUnit.SECONDS));
            }
            got.sort(null);
            wanted.sort(null);
            Main.equal(wanted, got);
        }
    }

    private static void simpleQueue() throws Exception {
        try (CuratorFramework client = Main.client()) {
            SimpleDistributedQueue queue = new SimpleDistributedQueue(client, "/values/simple");
            for (String item : List.of("a", "b", "c")) {
                queue.offer(Main.bytes(item));
            }
            Main.equal("a", Main.text(queue.peek()));
            Main.equal("a", Main.text(queue.take()));
            Main.equal("b", Main.text(queue.poll()));
            Main.equal("c", Main.text(queue.remove()));
            Main.check(queue.poll(100, TimeUnit.MILLISECONDS) == null, "not empty");
        }
    }
}
