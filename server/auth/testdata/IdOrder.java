import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.data.Id;

/**
 * Makes idorder.txt: pairs of lines, ids of scheme digest in the order in which they are added to a set like
 * ServerCnxn.authInfo, and in the order in which the set is gone through then. Ids of the same hash, and of hashes of
 * which only the low bits are the same, have the bins fill up. Run with zookeeper and zookeeper-jute 3.9.5 on the class
 * path and -Dstdout.encoding=UTF-8.
 */
public class IdOrder {
    private static final String[] SAME_HASH = {"Aa", "BB"};

    public static void main(String[] args) {
        for (int seed = 0; seed < 25; seed++) {
            Random random = new Random(seed);
            int kind = seed % 5;
            int count = 2 + random.nextInt(seed < 15 ? 24 : 90);
            Set<Id> set = Collections.newSetFromMap(new ConcurrentHashMap<>());
            List<String> added = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                String id = id(random, kind);
                added.add(id);
                set.add(new Id("digest", id));
            }
            List<String> order = new ArrayList<>();
            set.forEach(id -> order.add(id.getId()));
            System.out.println(String.join(" ", added));
            System.out.println(String.join(" ", order));
        }
    }

    private static String id(Random random, int kind) {
        switch (kind) {
            case 0:
                return "u" + random.nextInt(1000);
            case 1:
                return sameHash(random, 5);
            case 2:
                return random.nextInt(3) == 0 ? "u" + random.nextInt(50) : sameHash(random, 6);
            case 3:
                return "\u00e9\ud834\udd1e" + random.nextInt(300);
            default: // the low six bits of the spread hash are the same
                while (true) {
                    String id = "v" + random.nextInt(10000);
                    int h = new Id("digest", id).hashCode();
                    if (((h ^ h >>> 16) & 63) == 21) {
                        return id;
                    }
                }
        }
    }

    private static String sameHash(Random random, int length) {
        StringBuilder id = new StringBuilder();
        for (int i = 0; i < length; i++) {
            id.append(SAME_HASH[random.nextInt(2)]);
        }
        return id.toString();
    }
}
