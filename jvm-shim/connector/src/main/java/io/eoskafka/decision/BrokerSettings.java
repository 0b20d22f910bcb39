package io.eoskafka.decision;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.wire.KafkaCalls;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.Config;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The settings of the brokers that epochs depend on. Managed clusters show their users some of them
 * or none. A setting that is not shown is not taken to have Kafka's default: each is replaced by
 * what is safe without it, and a warning says so.
 *
 * @param maxTransactionTimeoutMs the longest timeout that the brokers allow a transaction, if they
 *     show it
 * @param timeoutCheckMs how often the brokers look for transactions that are past their timeout
 * @param logReplicas how many replicas the decision topic must have
 * @param logMinIsr how many of them must have a decision before it counts
 */
record BrokerSettings(
    OptionalInt maxTransactionTimeoutMs, long timeoutCheckMs, int logReplicas, int logMinIsr) {
  private static final Logger LOG = LoggerFactory.getLogger(BrokerSettings.class);

  static final String MAX_TRANSACTION_TIMEOUT = "transaction.max.timeout.ms";
  static final String LOG_REPLICAS = "transaction.state.log.replication.factor";
  static final String LOG_MIN_ISR = "transaction.state.log.min.isr";
  private static final String TIMEOUT_CHECK =
      "transaction.abort.timed.out.transaction.cleanup.interval.ms";

  /**
   * The transaction timeout to use if the brokers do not show their maximum: Kafka's default for
   * the maximum. The connector does not rely on it: brokers that allow less refuse it when the
   * producer is initialised.
   */
  static final int UNTOLD_TIMEOUT_MS = 900_000;

  /** Six times Kafka's default: an epoch gets that much less time, and a restart no less. */
  private static final long UNTOLD_TIMEOUT_CHECK_MS = 60_000;

  /** With three replicas, two of them in sync, one broker can be lost with its disk. */
  private static final int SAFE_REPLICAS = 3;

  /**
   * @param admin of the sink's cluster; any of its brokers is asked
   */
  static BrokerSettings read(Admin admin, ClientSettings client) {
    Collection<Node> nodes = KafkaCalls.reach(admin.describeCluster().nodes(), client);
    Config shown = config(admin, nodes.iterator().next());
    OptionalLong maxTimeout = number(shown, MAX_TRANSACTION_TIMEOUT);
    OptionalLong timeoutCheck = number(shown, TIMEOUT_CHECK);
    OptionalLong replicas = number(shown, LOG_REPLICAS);
    OptionalLong minIsr = number(shown, LOG_MIN_ISR);
    int safeReplicas = Math.min(SAFE_REPLICAS, nodes.size());
    BrokerSettings found =
        new BrokerSettings(
            maxTimeout.isPresent()
                ? OptionalInt.of((int) Math.min(maxTimeout.getAsLong(), Integer.MAX_VALUE))
                : OptionalInt.empty(),
            timeoutCheck.orElse(UNTOLD_TIMEOUT_CHECK_MS),
            (int) replicas.orElse(safeReplicas),
            (int) minIsr.orElse(Math.min(SAFE_REPLICAS - 1, safeReplicas)));
    List<String> untold = new ArrayList<>();
    if (maxTimeout.isEmpty()) {
      untold.add(
          MAX_TRANSACTION_TIMEOUT
              + " (transactions ask for kafka.transaction.timeout.ms, or "
              + UNTOLD_TIMEOUT_MS
              + " ms; the brokers refuse what is too long)");
    }
    if (timeoutCheck.isEmpty()) {
      untold.add(
          TIMEOUT_CHECK
              + " ("
              + UNTOLD_TIMEOUT_CHECK_MS
              + " ms are kept for it; if it is longer, add the difference to recoveryReserveMs)");
    }
    if (replicas.isEmpty()) {
      untold.add(LOG_REPLICAS + " (the decision topic needs " + found.logReplicas + ")");
    }
    if (minIsr.isEmpty()) {
      untold.add(LOG_MIN_ISR + " (the decision topic needs " + found.logMinIsr + ")");
    }
    if (!untold.isEmpty()) {
      LOG.warn(
          "The brokers do not show these settings to this user: {}. The right DescribeConfigs on"
              + " the cluster shows them",
          String.join(", ", untold));
    }
    return found;
  }

  /** Without entries if this user may not see it, or the broker does not know the request. */
  private static Config config(Admin admin, Node broker) {
    ConfigResource resource = new ConfigResource(ConfigResource.Type.BROKER, broker.idString());
    try {
      return KafkaCalls.get(admin.describeConfigs(List.of(resource)).all(), "DescribeConfigs")
          .get(resource);
    } catch (EosKafkaException | UnsupportedVersionException e) {
      LOG.info("Broker {} does not show its settings: {}", broker, e.getMessage());
      return new Config(List.of());
    }
  }

  private static OptionalLong number(Config config, String setting) {
    ConfigEntry entry = config.get(setting);
    return entry == null || entry.value() == null
        ? OptionalLong.empty()
        : OptionalLong.of(Long.parseLong(entry.value()));
  }
}
