package io.eoskafka.wire;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.EosKafkaException;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.NodeApiVersions;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.message.ApiVersionsResponseData.ApiVersion;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.utils.Time;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whether a cluster's brokers support what exactly-once delivery needs (KIP-447's guard). {@code
 * eoskafka upgrade check} has the same table in Python.
 */
public final class BrokerVersions {
  private static final Logger LOG = LoggerFactory.getLogger(BrokerVersions.class);

  private static final long POLL_MS = 50;

  private record Need(ApiKeys api, int version, String release, String why) {}

  private static final List<Need> NEEDS =
      List.of(
          new Need(
              ApiKeys.TXN_OFFSET_COMMIT,
              3,
              "2.5",
              "cannot distinguish the offsets of a former driver from those of the current one"),
          new Need(
              ApiKeys.OFFSET_FETCH, 7, "2.5", "does not wait for offsets in open transactions"),
          new Need(ApiKeys.LIST_TRANSACTIONS, 0, "3.0", "cannot list open transactions"),
          new Need(
              ApiKeys.DESCRIBE_TRANSACTIONS,
              0,
              "3.0",
              "cannot say which query a transaction belongs to"),
          // Last, so that for a broker that is merely too old the error says so.
          new Need(ApiKeys.INIT_PRODUCER_ID, 0, "0.11", "has no transactions"),
          new Need(ApiKeys.ADD_PARTITIONS_TO_TXN, 0, "0.11", "has no transactions"),
          new Need(ApiKeys.ADD_OFFSETS_TO_TXN, 0, "0.11", "has no transactions"),
          new Need(ApiKeys.END_TXN, 0, "0.11", "has no transactions"));

  private BrokerVersions() {}

  /**
   * Asks each broker; skips those that cannot be reached now.
   *
   * @param admin of the same cluster
   * @throws EosKafkaException {@code EOSKAFKA_BROKER_TOO_OLD}, {@code
   *     EOSKAFKA_BROKER_LACKS_REQUEST}, {@code EOSKAFKA_UNREACHABLE}
   */
  public static void require(Admin admin, ClientSettings settings) {
    Collection<Node> nodes;
    try {
      nodes = KafkaCalls.reach(admin.describeCluster().nodes(), settings);
    } catch (UnsupportedVersionException e) {
      throw EosKafkaException.of(
          "EOSKAFKA_BROKER_TOO_OLD",
          Map.of(
              "broker",
              settings.bootstrapServers(),
              "release",
              "2.5",
              "why",
              "does not even answer a request for the list of brokers (" + e.getMessage() + ")"),
          e);
    }
    try (BrokerRequests requests = new BrokerRequests(settings, "eoskafka-broker-versions")) {
      requests.setNodes(nodes);
      Set<Node> left = new HashSet<>(nodes);
      long deadline = Time.SYSTEM.milliseconds() + BrokerRequests.TIMEOUT_MS;
      while (!left.isEmpty() && Time.SYSTEM.milliseconds() < deadline) {
        long now = Time.SYSTEM.milliseconds();
        left.removeIf(
            node -> {
              boolean isReady = requests.client().ready(node, now);
              if (isReady) {
                check(node, requests.versions(node).orElseThrow());
              }
              boolean hasFailed = !isReady && requests.hasFailed(node);
              if (hasFailed) {
                LOG.warn("Broker {} does not answer, and may be too old", node);
              }
              return isReady || hasFailed;
            });
        if (!left.isEmpty()) {
          requests.client().poll(POLL_MS, now);
        }
      }
      if (!left.isEmpty()) {
        LOG.warn("These brokers did not answer, and may be too old: {}", left);
      }
    }
  }

  private static void check(Node node, NodeApiVersions versions) {
    String broker = node.idString() + " (" + node.host() + ":" + node.port() + ")";
    for (Need need : NEEDS) {
      ApiVersion has = versions.apiVersion(need.api);
      if (has == null) {
        throw lacks("broker " + broker, need.api, need.why, need.release);
      }
      if (has.maxVersion() < need.version) {
        throw EosKafkaException.of(
            "EOSKAFKA_BROKER_TOO_OLD",
            Map.of("broker", broker, "release", need.release, "why", need.why));
      }
    }
  }

  /** The error for a missing request of the admin client that not every query needs. */
  public static EosKafkaException lacks(ApiKeys api, String why, String release) {
    return lacks("the brokers", api, why, release);
  }

  private static EosKafkaException lacks(String broker, ApiKeys api, String why, String release) {
    return EosKafkaException.of(
        "EOSKAFKA_BROKER_LACKS_REQUEST",
        Map.of("broker", broker, "request", api.name, "why", why, "release", release));
  }
}
