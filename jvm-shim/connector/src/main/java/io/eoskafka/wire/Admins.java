package io.eoskafka.wire;

import io.eoskafka.config.ClientSettings;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigException;

/** Makes admin clients. */
public final class Admins {
  private Admins() {}

  /**
   * Creates a client. It reads keys and fetches tokens now, and connects later.
   *
   * @throws io.eoskafka.config.EosKafkaException {@code EOSKAFKA_LOG_IN_FAILED} if it cannot read
   *     or fetch what it would log in with
   * @throws ConfigException if a setting is wrong
   */
  public static Admin create(ClientSettings settings, String clientId) {
    try {
      return Admin.create(settings.admin(clientId));
    } catch (KafkaException e) {
      for (Throwable cause = e; cause != null; cause = cause.getCause()) {
        if (cause instanceof ConfigException wrong) {
          throw wrong;
        }
      }
      throw AuthorizationErrors.logInFailed(e);
    }
  }
}
