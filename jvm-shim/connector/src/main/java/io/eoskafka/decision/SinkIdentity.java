package io.eoskafka.decision;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.identity.Identity;
import io.eoskafka.spark.CheckpointFolder;
import java.util.Optional;

/**
 * The identity of an owner of decisions. It is kept in the checkpoint once the decision topic has
 * an entry of the owner, so a moved checkpoint keeps it, and its presence promises that entry. It
 * has all that a start needs to settle what the owner has left, except the client's settings, which
 * may be secret.
 *
 * @param id 22 characters, made from the checkpoint's first path: see {@link EpochOwner}
 * @param cluster the sink's
 * @param topic the decision topic
 * @param partitions how many it had: which one has the decisions follows from it, and must not move
 * @param prefix of its transactional ids; null in the file of a former version
 * @param writeId of a write in {@code foreachBatch}; null for a query's sink, and in the file of a
 *     former version
 */
record SinkIdentity(
    String id, String cluster, String topic, int partitions, String prefix, String writeId) {
  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * The one that the checkpoint holds, or empty if the query was never in epoch scope.
   *
   * @throws EosKafkaException {@code EOSKAFKA_CHECKPOINT_UNREADABLE}
   */
  static Optional<SinkIdentity> read(CheckpointFolder checkpoint, String file) {
    return checkpoint.readJson(file, SinkIdentity::parse);
  }

  private static SinkIdentity parse(JsonNode node) {
    Entry.number(node, "version", DecisionTopic.VERSION, DecisionTopic.VERSION);
    String id = Entry.text(node, "id");
    Entry.require(id.matches(Identity.DIGEST_PATTERN), "'" + id + "' is no id");
    return new SinkIdentity(
        id,
        Entry.text(node, "cluster"),
        Entry.text(node, "decisionTopic"),
        (int) Entry.number(node, "partitions", 2, Integer.MAX_VALUE),
        node.hasNonNull("prefix") ? Entry.text(node, "prefix") : null,
        node.hasNonNull("writeId") ? Entry.text(node, "writeId") : null);
  }

  void write(CheckpointFolder checkpoint, String file) {
    checkpoint.write(
        file,
        JSON.createObjectNode()
            .put("version", DecisionTopic.VERSION)
            .put("id", id)
            .put("cluster", cluster)
            .put("decisionTopic", topic)
            .put("partitions", partitions)
            .put("prefix", prefix)
            .put("writeId", writeId)
            .toString());
  }
}
