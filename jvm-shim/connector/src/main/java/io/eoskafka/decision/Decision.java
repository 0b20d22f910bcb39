package io.eoskafka.decision;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.group.Identity;
import io.eoskafka.transaction.PreparedTransaction;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import org.apache.kafka.common.TopicPartition;

/**
 * That an epoch has taken effect: every transaction in it is committed, now or by whoever starts
 * next.
 *
 * @param run the number of the run that decided it
 * @param epoch the micro-batch
 * @param plan what Spark had planned for it
 * @param outputs of its writers, by their number; those without rows too
 * @param sources by the id of each source's identity, what the epoch has read of it
 */
public record Decision(
    long run, long epoch, Plan plan, List<WriterOutput> outputs, Map<String, Input> sources) {

  private static final ObjectMapper JSON = new ObjectMapper();

  /** A record must stay far below the broker's limit of 1 MB: a writer's entry takes 150 bytes. */
  private static final int OUTPUTS_PER_PART = 2_000;

  /**
   * Hashes of Spark's offset files, of the epoch and of the one before: ends and starts. The end
   * alone would not do: two copies of a checkpoint that a driver and a restore have mixed may agree
   * in it.
   *
   * @param before empty where there is no such file (any more)
   */
  public record Plan(String before, String of) {
    static Plan ofFiles(Optional<String> before, Optional<String> of) {
      return new Plan(before.map(Identity::digest).orElse(""), of.map(Identity::digest).orElse(""));
    }

    /** Whether files that are there now are those of then; what was purged since does not count. */
    boolean agreesWith(Plan then) {
      return isSame(before, then.before) && isSame(of, then.of);
    }

    private static boolean isSame(String now, String then) {
      return now.isEmpty() || then.isEmpty() || now.equals(then);
    }
  }

  /**
   * What an epoch has read of a source.
   *
   * @param slots how many shares its topic-partitions were put in
   * @param split how they were split, if at all
   * @param starts the first offset of each
   * @param ends the one after its last
   */
  public record Input(
      int slots,
      SourceOptions.Split split,
      Map<TopicPartition, Long> starts,
      Map<TopicPartition, Long> ends) {}

  /** Its records' values; one unless there are very many writers. */
  List<String> encode() {
    int parts = Math.max(1, (outputs.size() + OUTPUTS_PER_PART - 1) / OUTPUTS_PER_PART);
    List<String> values = new ArrayList<>();
    for (int part = 0; part < parts; part++) {
      ObjectNode node = JSON.createObjectNode();
      node.put("version", DecisionTopic.VERSION);
      node.put("run", run).put("epoch", epoch).put("part", part).put("parts", parts);
      if (part == 0) {
        node.putObject("plan").put("before", plan.before).put("of", plan.of);
        ObjectNode all = node.putObject("sources");
        sources.forEach(
            (identity, input) -> {
              ObjectNode source = all.putObject(identity).put("slots", input.slots);
              if (!input.split.isNone()) {
                source
                    .putObject("split")
                    .put("minPartitions", input.split.minPartitions())
                    .put("maxRecords", input.split.maxRecords());
              }
              encode(input.starts, source.putObject("starts"));
              encode(input.ends, source.putObject("ends"));
            });
      }
      ArrayNode list = node.putArray("outputs");
      outputs
          .subList(part * OUTPUTS_PER_PART, Math.min(outputs.size(), (part + 1) * OUTPUTS_PER_PART))
          .forEach(output -> encode(output, list.addObject()));
      values.add(node.toString());
    }
    return values;
  }

  private static void encode(Map<TopicPartition, Long> offsets, ObjectNode into) {
    offsets.forEach(
        (partition, offset) ->
            into.withObjectProperty(partition.topic())
                .put(Integer.toString(partition.partition()), offset));
  }

  private static void encode(WriterOutput output, ObjectNode into) {
    into.put("writer", output.writer()).put("rows", output.rows()).put("digest", output.digest());
    PreparedTransaction transaction = output.transaction();
    if (transaction != null) {
      into.put("id", transaction.transactionalId())
          .put("producerId", transaction.producerId())
          .put("producerEpoch", transaction.producerEpoch())
          .put("version2", transaction.version2())
          .put("markerPartition", output.markerPartition())
          .put("markerOffset", output.markerOffset());
    }
  }

  /**
   * @param values what {@link #encode} gave, in its order; empty for no decision
   * @throws IllegalArgumentException where they are not
   */
  static Optional<Decision> decode(List<String> values) {
    if (values.isEmpty()) {
      return Optional.empty();
    }
    try {
      JsonNode first = JSON.readTree(values.get(0));
      List<WriterOutput> outputs = new ArrayList<>();
      for (int part = 0; part < values.size(); part++) {
        JsonNode node = JSON.readTree(values.get(part));
        if (node.get("version").asInt() != DecisionTopic.VERSION
            || node.get("part").asInt() != part
            || node.get("parts").asInt() != values.size()
            || node.get("run").asLong() != first.get("run").asLong()
            || node.get("epoch").asLong() != first.get("epoch").asLong()) {
          throw new IllegalArgumentException("not part " + part + " of this decision: " + node);
        }
        node.get("outputs").forEach(output -> outputs.add(decode(output)));
      }
      Map<String, Input> sources = new TreeMap<>();
      first
          .get("sources")
          .fields()
          .forEachRemaining(
              source ->
                  sources.put(
                      source.getKey(),
                      new Input(
                          source.getValue().get("slots").asInt(),
                          split(source.getValue().path("split")),
                          offsets(source.getValue().get("starts")),
                          offsets(source.getValue().get("ends")))));
      JsonNode plan = first.get("plan");
      return Optional.of(
          new Decision(
              first.get("run").asLong(),
              first.get("epoch").asLong(),
              new Plan(plan.get("before").asText(), plan.get("of").asText()),
              outputs,
              sources));
    } catch (JsonProcessingException | NullPointerException e) {
      throw new IllegalArgumentException("no decision: " + values, e);
    }
  }

  private static SourceOptions.Split split(JsonNode node) {
    return new SourceOptions.Split(
        node.path("minPartitions").asInt(), node.path("maxRecords").asLong());
  }

  private static WriterOutput decode(JsonNode node) {
    PreparedTransaction transaction =
        node.has("id")
            ? new PreparedTransaction(
                node.get("id").asText(),
                node.get("producerId").asLong(),
                (short) node.get("producerEpoch").asInt(),
                node.get("version2").asBoolean())
            : null;
    return new WriterOutput(
        node.get("writer").asInt(),
        transaction,
        node.path("markerPartition").asInt(-1),
        node.path("markerOffset").asLong(-1),
        node.get("rows").asLong(),
        node.get("digest").asLong());
  }

  private static Map<TopicPartition, Long> offsets(JsonNode topics) {
    Map<TopicPartition, Long> offsets = new java.util.HashMap<>();
    topics
        .fields()
        .forEachRemaining(
            topic ->
                topic
                    .getValue()
                    .fields()
                    .forEachRemaining(
                        partition ->
                            offsets.put(
                                new TopicPartition(
                                    topic.getKey(), Integer.parseInt(partition.getKey())),
                                partition.getValue().asLong())));
    return offsets;
  }
}
