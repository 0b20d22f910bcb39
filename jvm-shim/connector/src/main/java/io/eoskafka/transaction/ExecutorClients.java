package io.eoskafka.transaction;

import io.eoskafka.config.ClientSettings;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.Admin;

/** What an executor asks brokers with beside producers; one per JVM and set of settings. */
public final class ExecutorClients {
  private static final Duration GRACE = Duration.ofMinutes(2);
  private static final Map<ClientSettings, Admin> ADMINS = new ConcurrentHashMap<>();
  private static final Map<ClientSettings, CoordinatorCalls> CALLS = new ConcurrentHashMap<>();

  private ExecutorClients() {}

  public static Admin admin(ClientSettings settings) {
    return ADMINS.computeIfAbsent(settings, s -> Admin.create(s.admin("eoskafka-executor")));
  }

  public static CoordinatorCalls coordinators(ClientSettings settings) {
    return CALLS.computeIfAbsent(settings, s -> new CoordinatorCalls(admin(s), s));
  }

  /**
   * New ones are made at the next call: without an answer, the brokers that these know may be gone
   * for good, all of them at once. Calls of other tasks may end first.
   */
  public static void forget(ClientSettings settings) {
    CoordinatorCalls calls = CALLS.remove(settings);
    Admin admin = ADMINS.remove(settings);
    if (admin == null) {
      return;
    }
    Thread closing =
        new Thread(
            () -> {
              admin.close(GRACE);
              if (calls != null) {
                calls.close();
              }
            },
            "eoskafka-forget-admin");
    closing.setDaemon(true);
    closing.start();
  }

  /** Closes them, at the executor's end. */
  public static void closeAll() {
    CALLS.values().forEach(CoordinatorCalls::close);
    CALLS.clear();
    ADMINS.values().forEach(admin -> admin.close(Duration.ZERO));
    ADMINS.clear();
  }
}
