package io.eoskafka.task;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.wire.CoordinatorCalls;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.Admin;

/** What an executor asks brokers with beside producers; one per JVM and set of settings. */
final class ExecutorClients {
  private static final Map<ClientSettings, Admin> ADMINS = new ConcurrentHashMap<>();
  private static final Map<ClientSettings, CoordinatorCalls> CALLS = new ConcurrentHashMap<>();

  private ExecutorClients() {}

  static Admin admin(ClientSettings settings) {
    return ADMINS.computeIfAbsent(settings, s -> Admin.create(s.admin("eoskafka-executor")));
  }

  static CoordinatorCalls coordinators(ClientSettings settings) {
    return CALLS.computeIfAbsent(settings, s -> new CoordinatorCalls(admin(s), s));
  }

  /** Closes them, at the executor's end. */
  static void closeAll() {
    CALLS.values().forEach(CoordinatorCalls::close);
    CALLS.clear();
    ADMINS.values().forEach(admin -> admin.close(Duration.ZERO));
    ADMINS.clear();
  }
}
