package io.eoskafka.task;

import io.eoskafka.config.ClientSettings;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.admin.Admin;

/** One admin client per JVM and set of settings, to read a group's offsets with. */
final class ExecutorAdmin {
  private static final Map<ClientSettings, Admin> ADMINS = new ConcurrentHashMap<>();

  private ExecutorAdmin() {}

  static Admin of(ClientSettings settings) {
    return ADMINS.computeIfAbsent(settings, s -> Admin.create(s.admin("eoskafka-executor")));
  }

  /** Closes them, at the executor's end. */
  static void closeAll() {
    ADMINS
        .values()
        .removeIf(
            admin -> {
              admin.close(Duration.ZERO);
              return true;
            });
  }
}
