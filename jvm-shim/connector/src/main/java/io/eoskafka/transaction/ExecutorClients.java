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

/** What an executor asks brokers with beside producers; one per JVM and set of settings. */
public final class ExecutorClients {
  private static final Duration GRACE = Duration.ofMinutes(2);

  /** For tasks that have a client and have not called it yet. */
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
   * New ones are made at the next call: without an answer, the brokers that these know may be gone
   * for good, all of them at once. Other tasks may go on with these for a short time.
   */
  public static void forget(ClientSettings settings) {
    // In this order: what is made in between is made with a new admin client.
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
   * Lets the attempt after a refused log-in log in anew: clients keep what they have read of files
   * with passwords and certificates, which may have been replaced.
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

  /** Closes them, at the executor's end. */
  public static void closeAll() {
    CALLS.values().forEach(CoordinatorCalls::close);
    CALLS.clear();
    ADMINS.values().forEach(admin -> admin.close(Duration.ZERO));
    ADMINS.clear();
  }
}
