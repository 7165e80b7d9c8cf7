package zkd.standin;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import javax.security.auth.login.AppConfigurationEntry;
import javax.security.auth.login.Configuration;

/** The logins of a JAAS configuration that a test has set as an object, in the place of a file. */
final class Logins {
  /** Those that a server may look for, beside the one that zookeeper.sasl.serverconfig names. */
  private static final List<String> NAMES = List.of("Server", "QuorumServer", "QuorumLearner");

  /** The flag that has a server read them from a file in dir; "" if the test has set no such object. */
  static String flag(Path dir) throws IOException {
    Configuration set;
    try {
      set = Configuration.getConfiguration();
    } catch (SecurityException none) { // neither a file nor an object
      return "";
    }
    if (set.getClass().getName().startsWith("sun.")) { // of a file, whose name is a property
      return "";
    }
    List<String> names = new ArrayList<>(NAMES);
    String own = System.getProperty("zookeeper.sasl.serverconfig");
    if (own != null && !names.contains(own)) {
      names.add(own);
    }
    List<String> lines = new ArrayList<>();
    for (String name : names) {
      AppConfigurationEntry[] modules = set.getAppConfigurationEntry(name);
      if (modules != null) {
        lines.add(name + " {");
        for (AppConfigurationEntry m : modules) {
          lines.add("  " + m.getLoginModuleName() + " required");
          for (Map.Entry<String, ?> o : m.getOptions().entrySet()) {
            lines.add("  " + o.getKey() + "=\"" + o.getValue() + "\"");
          }
          lines.add("  ;");
        }
        lines.add("};");
      }
    }
    return lines.isEmpty() ? "" : " -Djava.security.auth.login.config=" + ServerProcess.write(dir, "standin.jaas", lines);
  }

  private Logins() {}
}
