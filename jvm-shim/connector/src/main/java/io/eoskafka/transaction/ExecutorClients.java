package io.eoskafka.transaction;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.wire.Admins;
import io.eoskafka.wire.AuthorizationErrors;
import io.eoskafka.wire.Daemon;
import io.eoskafka.wire.KafkaCalls;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskFailureListener;

/** The clients that an executor uses besides producers; one per JVM and set of settings. */
public final class ExecutorClients {
  private static final Duration GRACE = Duration.ofMinutes(2);

  /** Leaves time to tasks that have got a client and have not called it yet. */
  private static final long REST_MS = 10_000;

  private static final Map<ClientSettings, Admin> ADMINS = new ConcurrentHashMap<>();
  private static final Map<ClientSettings, CoordinatorCalls> CALLS = new ConcurrentHashMap<>();

  private ExecutorClients() {}

  public static Admin admin(ClientSettings settings) {
    return ADMINS.computeIfAbsent(settings, s -> Admins.create(s, "eoskafka-executor"));
  }

  public static CoordinatorCalls coordinators(ClientSettings settings) {
    return CALLS.computeIfAbsent(settings, s -> new CoordinatorCalls(admin(s), s));
  }

  /**
   * Makes the next call create new clients: if no broker answers, all brokers that the present
   * clients know may have been replaced. Other tasks may use the present clients for a short time.
   */
  public static void forget(ClientSettings settings) {
    // In this order, so that anything created in between uses a new admin client.
    Admin admin = ADMINS.remove(settings);
    CoordinatorCalls calls = CALLS.remove(settings);
    if (admin == null && calls == null) {
      return;
    }
    Daemon.start(
        "eoskafka-forget-admin",
        () -> {
          KafkaCalls.sleep(REST_MS);
          if (admin != null) {
            admin.close(GRACE);
          }
          if (calls != null) {
            calls.close();
          }
        });
  }

  /**
   * Lets the next attempt after a refused log-in use new clients: clients keep the passwords and
   * certificates that they have read from files, which may have been replaced.
   */
  public static void forgetAfterRefusal(TaskContext task, ClientSettings... settings) {
    task.addTaskFailureListener(
        (TaskFailureListener)
            (failed, error) -> {
              if (AuthorizationErrors.isRefusedLogIn(error)) {
                Stream.of(settings).forEach(ExecutorClients::forget);
              }
            });
  }

  /** Closes them when the executor shuts down. */
  public static void closeAll() {
    CALLS.values().forEach(CoordinatorCalls::close);
    CALLS.clear();
    ADMINS.values().forEach(admin -> admin.close(Duration.ZERO));
    ADMINS.clear();
  }
}
