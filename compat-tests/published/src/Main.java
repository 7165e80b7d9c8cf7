package zkd.standin;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.PrintStream;
import java.util.Arrays;
import java.util.stream.Collectors;
import net.bytebuddy.agent.ByteBuddyAgent;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs the test classes that it is given, with processes of zkd in the place of servers, and prints a line for each
 * method: its outcome, its name, and why it has failed.
 */
public final class Main {
  /** Where the lines go: tests put something else in the place of System.out. */
  private static final PrintStream OUT = System.out;

  /** Prints a line for each process of a server: a class that starts none shows nothing about it. */
  static void started() {
    OUT.println("server");
  }

  public static void main(String[] classes) {
    Properties.begin();
    StandIns.install(ByteBuddyAgent.install());
    LauncherFactory.create()
        .execute(
            LauncherDiscoveryRequestBuilder.request()
                .selectors(Arrays.stream(classes).map(c -> selectClass(c)).collect(Collectors.toList()))
                .build(),
            new Lines());
    System.exit(0); // threads of tests that failed may be left
  }

  /** Prints what comes of each method, and of a class whose set-up fails. */
  private static final class Lines implements TestExecutionListener {
    @Override
    public void executionStarted(TestIdentifier test) {
      if (test.isTest()) {
        OUT.println("begin " + name(test));
      }
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
      print("skip", test, reason);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
      String why = result.getThrowable().map(Lines::told).orElse("");
      switch (result.getStatus()) {
        case SUCCESSFUL:
          if (test.isTest()) {
            print("pass", test, "");
          }
          break;
        case ABORTED:
          print("skip", test, why);
          break;
        default:
          print("fail", test, why);
      }
    }

    private static void print(String outcome, TestIdentifier test, String why) {
      OUT.println(outcome + " " + name(test) + " " + why.replaceAll("\\s+", " ").trim());
    }

    /** The class and the method, and which of its repetitions it is if there are several. */
    private static String name(TestIdentifier test) {
      if (!(test.getSource().orElse(null) instanceof MethodSource)) {
        return test.getLegacyReportingName().replaceAll("\\s+", "") + "#";
      }
      MethodSource m = (MethodSource) test.getSource().get();
      String again = test.getUniqueId().contains("invocation:#") ? test.getUniqueId().replaceAll(".*(\\[|:)#(\\d+)\\]$", "[$2]") : "";
      return m.getClassName() + "#" + m.getMethodName() + again;
    }

    /** A failure in one line, with the place in the test. */
    private static String told(Throwable t) {
      String at = "";
      for (StackTraceElement e : t.getStackTrace()) {
        if (e.getClassName().startsWith("org.apache.") && e.getFileName() != null && e.getFileName().contains("Test")) {
          at = " at " + e.getFileName() + ":" + e.getLineNumber();
          break;
        }
      }
      String cause = t.getCause() == null ? "" : " (" + t.getCause() + ")";
      return t + cause + at;
    }
  }
}
