package zkd.standin;

import static net.bytebuddy.matcher.ElementMatchers.isStatic;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.returns;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import java.lang.instrument.Instrumentation;
import java.util.HashSet;
import java.util.Set;
import net.bytebuddy.agent.builder.AgentBuilder;
import net.bytebuddy.implementation.MethodDelegation;
import net.bytebuddy.implementation.StubMethod;
import net.bytebuddy.implementation.SuperMethodCall;
import net.bytebuddy.implementation.bind.annotation.Argument;
import net.bytebuddy.implementation.bind.annotation.RuntimeType;
import net.bytebuddy.implementation.bind.annotation.This;

/**
 * Puts processes of zkd in the place of servers within the test's own process: whoever asks for a ServerCnxnFactory gets
 * a {@link ProcessFactory}, and a QuorumPeer runs a {@link Peer}.
 */
final class StandIns {
  static void install(Instrumentation instrumentation) {
    new AgentBuilder.Default()
        .type(named("org.apache.zookeeper.server.ServerCnxnFactory"))
        .transform((b, type, loader, module, domain) -> b
            .method(named("createFactory").and(takesArguments(0)))
            .intercept(MethodDelegation.to(Factories.class)))
        .type(named("org.apache.zookeeper.server.quorum.QuorumPeer"))
        .transform((b, type, loader, module, domain) -> b
            .method(named("loadDataBase").or(named("startServerCnxnFactory")).or(named("startLeaderElection")))
            .intercept(StubMethod.INSTANCE)
            .method(named("run").and(takesArguments(0)))
            .intercept(MethodDelegation.to(Run.class))
            .method(named("shutdown").and(takesArguments(0)))
            .intercept(MethodDelegation.to(Shutdown.class).andThen(SuperMethodCall.INSTANCE))
            .method(named("setSuspended"))
            .intercept(MethodDelegation.to(Suspend.class))
            .method(named("getPeerState"))
            .intercept(MethodDelegation.to(State.class)))
        // What a server in the test's process would show by JMX.
        .type(named("org.apache.zookeeper.test.JMXEnv"))
        .transform((b, type, loader, module, domain) -> b
            .method(isStatic().and(returns(Set.class)))
            .intercept(MethodDelegation.to(NoBeans.class))
            .method(named("ensureNone").or(named("ensureBeanAttribute")))
            .intercept(StubMethod.INSTANCE))
        // What a server in the test's process would count.
        .type(named("org.apache.zookeeper.test.ZooKeeperQuotaTest"))
        .transform((b, type, loader, module, domain) -> b
            .method(named("validateQuotaExceededMetrics"))
            .intercept(StubMethod.INSTANCE))
        .installOn(instrumentation);
  }

  // Their parameters are Objects, and the classes are named within: else they were loaded before they are changed.

  /** In the place of ServerCnxnFactory.createFactory. */
  public static final class Factories {
    @RuntimeType
    public static Object create() throws Exception {
      return new ProcessFactory();
    }
  }

  /** In the place of QuorumPeer.run. */
  public static final class Run {
    public static void run(@This Object peer) throws Exception {
      Peer.of(peer).run();
    }
  }

  /** Before QuorumPeer.shutdown. */
  public static final class Shutdown {
    public static void shutdown(@This Object peer) throws Exception {
      Peer.of(peer).stop();
    }
  }

  /** In the place of QuorumPeer.setSuspended. */
  public static final class Suspend {
    public static void suspend(@This Object peer, @Argument(0) boolean suspended) throws Exception {
      Peer.of(peer).suspend(suspended);
    }
  }

  /** In the place of QuorumPeer.getPeerState. */
  public static final class State {
    @RuntimeType
    public static Object state(@This Object peer) throws Exception {
      return Peer.of(peer).state();
    }
  }

  /** In the place of what looks for beans. */
  public static final class NoBeans {
    @RuntimeType
    public static Object none() {
      return new HashSet<>();
    }
  }

  private StandIns() {}
}
