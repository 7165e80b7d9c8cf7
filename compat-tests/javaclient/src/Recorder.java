package compat;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.Callable;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.OpResult;
import org.apache.zookeeper.WatchedEvent;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.data.ACL;
import org.apache.zookeeper.data.ClientInfo;
import org.apache.zookeeper.data.Stat;

/** Prints what calls return, the same in every run: no times, no ids, zxids only in relation to one another. */
final class Recorder {
    static final long WAIT_SECONDS = 100; // nothing takes as long, but on a machine that stands still
    static final List<ACL> OPEN = ZooDefs.Ids.OPEN_ACL_UNSAFE;

    private Recorder() {}

    static void title(String text) {
        System.out.println("# " + text);
    }

    /** Runs one call and prints its name and its result or its error code. */
    static <T> T call(String name, Callable<T> body) {
        T result = null;
        String shown;
        try {
            result = body.call();
            shown = show(result);
        } catch (KeeperException e) {
            shown = "error " + e.code() + (e.getPath() == null ? "" : " " + e.getPath()) + results(e);
        } catch (IllegalArgumentException | UnsupportedOperationException e) {
            shown = "refused by the client";
        } catch (Exception e) {
            throw new IllegalStateException(name, e);
        }
        System.out.println(name + " -> " + shown);
        return result;
    }

    private static String results(KeeperException e) {
        return e.getResults() == null ? "" : " " + show(e.getResults());
    }

    static String show(Object value) {
        if (value == null) {
            return "null";
        }
        if (value instanceof byte[]) {
            return '"' + new String((byte[]) value, StandardCharsets.UTF_8) + '"';
        }
        if (value instanceof Stat) {
            return stat((Stat) value);
        }
        if (value instanceof ACL) {
            ACL acl = (ACL) value;
            return acl.getId().getScheme() + ":" + acl.getId().getId() + ":" + acl.getPerms();
        }
        if (value instanceof ClientInfo) {
            return ((ClientInfo) value).getAuthScheme() + "=" + ((ClientInfo) value).getUser();
        }
        if (value instanceof OpResult) {
            return opResult((OpResult) value);
        }
        if (value instanceof Object[]) {
            return show(java.util.Arrays.asList((Object[]) value));
        }
        if (value instanceof List) {
            List<String> shown = new ArrayList<>();
            for (Object element : (List<?>) value) {
                shown.add(show(element));
            }
            return shown.toString();
        }
        return value.toString();
    }

    /** Who the session is, in an order of its own: the server keeps the identities in a hash set. */
    static List<String> identities(List<ClientInfo> infos) {
        List<String> shown = new ArrayList<>();
        for (ClientInfo info : infos) {
            shown.add(show(info));
        }
        return sorted(shown);
    }

    /** A list whose order the server does not promise. */
    static List<String> sorted(List<String> names) {
        List<String> copy = new ArrayList<>(names);
        Collections.sort(copy);
        return copy;
    }

    private static String stat(Stat s) {
        String owner = s.getEphemeralOwner() == 0 ? "-" : "session";
        return "{v=" + s.getVersion() + " cv=" + s.getCversion() + " av=" + s.getAversion() + " owner=" + owner
            + " len=" + s.getDataLength() + " kids=" + s.getNumChildren() + " zxids:" + zxids(s) + times(s) + "}";
    }

    /** Nothing for plausible times; the system nodes and the root are as old as 1970. */
    private static String times(Stat s) {
        long age = System.currentTimeMillis() - s.getCtime();
        if (s.getCtime() == 0) {
            return s.getMtime() == 0 ? " ctime=mtime=0" : " ctime=0";
        }
        return age < -5_000 || age > 600_000 || s.getMtime() < s.getCtime() ? " implausible times" : "";
    }

    /** The order of the three zxids: "c=m=p" after a create, "c<m=p" and so on. */
    private static String zxids(Stat s) {
        TreeMap<Long, String> ranks = new TreeMap<>();
        ranks.merge(s.getCzxid(), "c", (a, b) -> a + "=" + b);
        ranks.merge(s.getMzxid(), "m", (a, b) -> a + "=" + b);
        ranks.merge(s.getPzxid(), "p", (a, b) -> a + "=" + b);
        StringBuilder text = new StringBuilder();
        for (Map.Entry<Long, String> rank : ranks.entrySet()) {
            text.append(text.length() == 0 ? "" : "<").append(rank.getValue());
        }
        return text.toString();
    }

    private static String opResult(OpResult r) {
        if (r instanceof OpResult.ErrorResult) {
            return "error(" + ((OpResult.ErrorResult) r).getErr() + ")";
        }
        if (r instanceof OpResult.CreateResult) {
            OpResult.CreateResult c = (OpResult.CreateResult) r;
            return "create(" + c.getPath() + " " + show(c.getStat()) + ")";
        }
        if (r instanceof OpResult.SetDataResult) {
            return "set(" + show(((OpResult.SetDataResult) r).getStat()) + ")";
        }
        if (r instanceof OpResult.GetDataResult) {
            OpResult.GetDataResult g = (OpResult.GetDataResult) r;
            return "get(" + show(g.getData()) + " " + show(g.getStat()) + ")";
        }
        if (r instanceof OpResult.GetChildrenResult) {
            return "children(" + sorted(((OpResult.GetChildrenResult) r).getChildren()) + ")";
        }
        return r.getClass().getSimpleName();
    }

    /** Collects events; next() prints the next one, none() shows that none is waiting. */
    static final class Events implements Watcher {
        private final String name;
        private final BlockingQueue<WatchedEvent> queue = new LinkedBlockingQueue<>();

        Events(String name) {
            this.name = name;
        }

        @Override
        public void process(WatchedEvent event) {
            queue.add(event);
        }

        void next() throws InterruptedException {
            WatchedEvent event = queue.poll(WAIT_SECONDS, TimeUnit.SECONDS);
            System.out.println("event " + name + ": " + show(event));
        }

        /** Prints count events that may come in any order, sorted. */
        void nextSorted(int count) throws InterruptedException {
            List<String> shown = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                shown.add(show(queue.poll(WAIT_SECONDS, TimeUnit.SECONDS)));
            }
            for (String event : sorted(shown)) {
                System.out.println("event " + name + ": " + event);
            }
        }

        /** Prints count events of nodes, sorted; what the connection has to tell is passed over. */
        void nodeEventsSorted(int count) throws InterruptedException {
            List<String> shown = new ArrayList<>();
            while (shown.size() < count) {
                WatchedEvent event = queue.poll(WAIT_SECONDS, TimeUnit.SECONDS);
                if (event == null || event.getType() != Watcher.Event.EventType.None) {
                    shown.add(show(event));
                }
            }
            for (String event : sorted(shown)) {
                System.out.println("event " + name + ": " + event);
            }
        }

        /** Skips events until the connection is in the state. */
        void await(Watcher.Event.KeeperState state) throws InterruptedException {
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
            while (true) {
                WatchedEvent event = queue.poll(deadline - System.nanoTime(), TimeUnit.NANOSECONDS);
                if (event == null) {
                    System.out.println("event " + name + ": NONE, waited for " + state);
                    return;
                }
                if (event.getState() == state && event.getType() == Watcher.Event.EventType.None) {
                    System.out.println("state " + name + ": " + state);
                    return;
                }
            }
        }

        /** The caller has seen a reply of the same session since: an event would be here. */
        void none() {
            String waiting = queue.isEmpty() ? "none, as it should be" : show(queue.peek());
            System.out.println("event " + name + ": " + waiting);
        }

        private static String show(WatchedEvent event) {
            return event == null ? "NONE" : event.getState() + " " + event.getType() + " " + event.getPath();
        }
    }
}
