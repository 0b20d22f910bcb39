package io.eoskafka.source;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.eoskafka.config.Json;
import io.eoskafka.identity.Identity;
import io.eoskafka.spark.CheckpointFolder;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.kafka.common.TopicPartition;

/**
 * What the source keeps in the checkpoint, beside Spark's own files: the identity, the topics' ids,
 * and the initial offsets in the built-in connector's own file and form, so that either connector
 * reads them.
 */
final class CheckpointFiles {
  private static final ObjectMapper JSON = new ObjectMapper();

  private static final String IDENTITY = "eoskafka-identity.json";
  private static final String TOPIC_IDS = "eoskafka-topic-ids.json";
  private static final String FORMER_IDS = "eoskafka-former-topic-ids.json";
  private static final String UNRESOLVED = "eoskafka-unresolved.json";
  private static final String RESTARTED = "eoskafka-restarted.json";
  private static final String CUT = "eoskafka-cut.json";
  private static final String RUN = "eoskafka-run";
  private static final String TAKEN_OVER = "eoskafka-taken-over";
  private static final String REAL_TIME = "eoskafka-real-time";
  private static final String INITIAL_OFFSETS = "0";

  /** The number of a batch. */
  private static final Pattern BATCH = Pattern.compile("[0-9]{1,18}");

  private final CheckpointFolder folder;
  private final CheckpointFolder offsetLog;

  /**
   * @param sourcePath {@code <checkpoint>/sources/<index>}
   */
  CheckpointFiles(String sourcePath, Configuration hadoop) {
    folder = new CheckpointFolder(sourcePath, hadoop);
    offsetLog =
        new CheckpointFolder(
            new Path(new Path(sourcePath).getParent().getParent(), "offsets").toString(), hadoop);
  }

  /** The checkpoint's location, as users know it. */
  String checkpoint() {
    return new Path(offsetLog.nameOf("x")).getParent().getParent().toString();
  }

  Optional<Identity> readIdentity() {
    return folder.readJson(
        IDENTITY,
        node -> {
          JsonNode version = node.path("version");
          JsonNode shared = node.path("shared");
          if (!version.isInt() || version.asInt() != 1) {
            throw new IllegalArgumentException("not of this version: " + node);
          }
          if (!shared.isBoolean() && !shared.isMissingNode()) {
            throw new IllegalArgumentException("neither shared nor not: " + node);
          }
          return new Identity(
              Objects.requireNonNull(node.path("group").textValue()),
              Objects.requireNonNull(node.path("instanceId").textValue()),
              Objects.requireNonNull(node.path("checkpointId").textValue()),
              shared.asBoolean());
        });
  }

  void writeIdentity(Identity identity) {
    folder.write(
        IDENTITY,
        JSON.createObjectNode()
            .put("version", 1)
            .put("group", identity.group())
            .put("instanceId", identity.instanceId())
            .put("checkpointId", identity.checkpointId())
            .put("shared", identity.isShared())
            .toString());
  }

  /**
   * For each partition its topic's id when it was last planned; the file is kept with the first.
   */
  Map<TopicPartition, String> readTopicIds() {
    return folder.readJson(TOPIC_IDS, CheckpointFiles::topicIds).orElse(Map.of());
  }

  private static Map<TopicPartition, String> topicIds(JsonNode topics) {
    Map<TopicPartition, String> ids =
        byPartition(topics, id -> Objects.requireNonNull(id.textValue()));
    if (ids.isEmpty()) {
      throw new IllegalArgumentException("no topics: " + topics);
    }
    return ids;
  }

  /**
   * Of an object with a member for each topic, and in it one for each partition.
   *
   * @param form of what stands there
   */
  private static <T> Map<TopicPartition, T> byPartition(
      JsonNode topics, Function<JsonNode, T> form) {
    Map<TopicPartition, T> found = new HashMap<>();
    if (!topics.isObject()) {
      throw new IllegalArgumentException("no topics: " + topics);
    }
    for (Map.Entry<String, JsonNode> topic : topics.properties()) {
      if (!topic.getValue().isObject()) {
        throw new IllegalArgumentException("no partitions: " + topics);
      }
      for (Map.Entry<String, JsonNode> partition : topic.getValue().properties()) {
        found.put(
            new TopicPartition(topic.getKey(), PartitionOffsets.number(partition.getKey())),
            form.apply(partition.getValue()));
      }
    }
    return found;
  }

  void writeTopicIds(Map<TopicPartition, String> ids) {
    ObjectNode root = JSON.createObjectNode();
    ids.forEach(
        (partition, id) ->
            Json.objectIn(root, partition.topic())
                .put(Integer.toString(partition.partition()), id));
    folder.write(TOPIC_IDS, root.toString());
  }

  /** The ids of topics that were deleted, and created again under the same names. */
  Set<String> readFormerTopicIds() {
    return folder.readJson(FORMER_IDS, CheckpointFiles::formerTopicIds).orElse(Set.of());
  }

  private static Set<String> formerTopicIds(JsonNode list) {
    if (!list.isArray() || list.isEmpty()) {
      throw new IllegalArgumentException("no topic ids: " + list);
    }
    Set<String> ids = new HashSet<>();
    list.forEach(id -> ids.add(Objects.requireNonNull(id.textValue())));
    return ids;
  }

  void writeFormerTopicIds(Set<String> ids) {
    ArrayNode list = JSON.createArrayNode();
    ids.stream().sorted().forEach(list::add);
    folder.write(FORMER_IDS, list.toString());
  }

  /**
   * The partitions that this driver's first run has found in a group without any offset, and whose
   * starts it does not know to be committed yet.
   */
  Set<TopicPartition> readUnresolved() {
    return folder
        .read(UNRESOLVED)
        .map(text -> PartitionOffsets.parse(text, folder.nameOf(UNRESOLVED)).offsets().keySet())
        .orElse(Set.of());
  }

  void writeUnresolved(Set<TopicPartition> partitions) {
    Map<TopicPartition, Long> none = new HashMap<>();
    partitions.forEach(partition -> none.put(partition, -1L));
    folder.write(UNRESOLVED, PartitionOffsets.of(none).json());
  }

  /** See {@link RestartedPartitions}. */
  Map<TopicPartition, RestartedPartitions.Restart> readRestarted() {
    return folder.readJson(RESTARTED, CheckpointFiles::restarts).orElse(Map.of());
  }

  void writeRestarted(Map<TopicPartition, RestartedPartitions.Restart> restarts) {
    folder.write(RESTARTED, json(restarts));
  }

  /** See {@link RestartedPartitions#cut}. */
  Map<TopicPartition, RestartedPartitions.Restart> readCut() {
    return folder.readJson(CUT, CheckpointFiles::restarts).orElse(Map.of());
  }

  void writeCut(Map<TopicPartition, RestartedPartitions.Restart> restarts) {
    folder.write(CUT, json(restarts));
  }

  private static Map<TopicPartition, RestartedPartitions.Restart> restarts(JsonNode topics) {
    return byPartition(topics, CheckpointFiles::restart);
  }

  private static RestartedPartitions.Restart restart(JsonNode found) {
    JsonNode offset = found.path("offset");
    JsonNode batch = found.path("batch");
    if (!offset.isIntegralNumber() || !batch.isIntegralNumber()) {
      throw new IllegalArgumentException("no offset: " + found);
    }
    return new RestartedPartitions.Restart(
        Objects.requireNonNull(found.path("id").textValue()),
        offset.longValue(),
        batch.longValue());
  }

  private static String json(Map<TopicPartition, RestartedPartitions.Restart> restarts) {
    ObjectNode root = JSON.createObjectNode();
    restarts.forEach(
        (partition, found) ->
            Json.objectIn(root, partition.topic())
                .putObject(Integer.toString(partition.partition()))
                .put("id", found.topicId())
                .put("offset", found.offset())
                .put("batch", found.batch()));
    return root.toString();
  }

  /** Which run has started last with this checkpoint, in a shared group. */
  Optional<String> readRun() {
    Optional<String> text = folder.read(RUN);
    if (text.isPresent() && text.get().isBlank()) {
      throw folder.unreadable(RUN, null);
    }
    return text;
  }

  void writeRun(String run) {
    folder.write(RUN, run);
  }

  /** The last batch of others in Spark's log that a run of this connector has gone on from. */
  OptionalLong readTakenOver() {
    return readBatch(TAKEN_OVER);
  }

  private OptionalLong readBatch(String file) {
    Optional<String> text = folder.read(file);
    if (text.isEmpty()) {
      return OptionalLong.empty();
    }
    if (!BATCH.matcher(text.get().trim()).matches()) {
      throw folder.unreadable(file, null);
    }
    return OptionalLong.of(Long.parseLong(text.get().trim()));
  }

  void writeTakenOver(long batch) {
    folder.write(TAKEN_OVER, Long.toString(batch));
  }

  /**
   * The first batch of the last run in real-time mode, if the query was in epoch scope before. Its
   * tasks may have committed although Spark's log does not have it.
   */
  OptionalLong readRealTime() {
    return readBatch(REAL_TIME);
  }

  void writeRealTime(long batch) {
    folder.write(REAL_TIME, Long.toString(batch));
  }

  Optional<PartitionOffsets> readInitialOffsets() {
    return folder
        .read(INITIAL_OFFSETS)
        .map(
            text -> {
              int line = text.indexOf('\n');
              // A zero byte and a version line come before the JSON (SPARK-19517).
              if (line < 0 || !text.substring(0, line).replace("\0", "").equals("v1")) {
                throw folder.unreadable(INITIAL_OFFSETS, null);
              }
              return PartitionOffsets.parse(
                  text.substring(line + 1), folder.nameOf(INITIAL_OFFSETS));
            });
  }

  void writeInitialOffsets(PartitionOffsets offsets) {
    folder.write(INITIAL_OFFSETS, "\0v1\n" + offsets.json());
  }

  /** Whether Spark has logged any batch of this query. */
  boolean sparkHasBatches() {
    return offsetLog.hasBatches();
  }
}
