package zkd.standin;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The system properties that a test has set: a server in its process would read them. */
final class Properties {
  private static Map<String, String> before = Map.of();

  /** Takes note of those that are there without a test; ZooKeeper's are meant for its tests. */
  static void begin() {
    before = now();
    before.keySet().removeIf(name -> name.startsWith("zookeeper."));
  }

  /** Those that were set since, as java takes them on its command line. */
  static String set() {
    List<String> flags = new ArrayList<>();
    now().forEach((name, value) -> {
      boolean simple = !name.isEmpty() && !(name + value).matches("(?s).*\\s.*");
      if (simple && !value.equals(before.get(name))) {
        flags.add("-D" + name + "=" + value);
      }
    });
    return String.join(" ", flags);
  }

  private static Map<String, String> now() {
    Map<String, String> all = new HashMap<>();
    for (String name : System.getProperties().stringPropertyNames()) {
      all.put(name, System.getProperty(name, ""));
    }
    return all;
  }

  private Properties() {}
}
