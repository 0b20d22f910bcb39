package io.eoskafka.decision;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.Json;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.identity.Identity;
import io.eoskafka.transaction.TransactionRef;
import io.eoskafka.transaction.TransactionalId;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;

/**
 * States that an epoch has taken effect: every transaction in it is committed, either now or by the
 * next start.
 *
 * @param run the number of the run that decided it
 * @param epoch the micro-batch
 * @param previous the one that its owner had decided before, or -1
 * @param plan what Spark had planned for it
 * @param outputs of its writers, by their number; those without rows too
 * @param sources by the id of each source's identity, what the epoch has read of it
 */
public record Decision(
    long run,
    long epoch,
    long previous,
    Plan plan,
    List<WriterOutput> outputs,
    Map<String, Input> sources) {

  private static final ObjectMapper JSON = new ObjectMapper();

  /**
   * A record must stay below the broker's limit of 1 MB, with as many outputs and as many offsets
   * as a part takes. A writer's entry takes 150 bytes.
   */
  private static final int OUTPUTS_PER_PART = 2_000;

  /** As {@link #OUTPUTS_PER_PART}, in bytes. */
  private static final int OFFSETS_BYTES_PER_PART = 400_000;

  /** The most that two offsets of a partition take, its start and its end, but for its topic. */
  private static final int OFFSETS_BYTES = 80;

  /**
   * The version of a decision whose sources are in several parts. A connector that only knows those
   * of the first part refuses it.
   */
  private static final int SOURCES_IN_PARTS = 2;

  /**
   * Hashes of Spark's offset files for the epoch and for the one before: the epoch's ends and
   * starts. The ends alone are not enough: two copies of a checkpoint that a driver and a restore
   * have mixed may agree in their ends.
   *
   * @param before empty where there is no such file (any more)
   */
  public record Plan(String before, String of) {
    /** Of a batch job. */
    static final Plan NONE = new Plan("", "");

    static Plan ofFiles(Optional<String> before, Optional<String> of) {
      return new Plan(before.map(Identity::digest).orElse(""), of.map(Identity::digest).orElse(""));
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
      Map<TopicPartition, Long> ends) {

    private Input empty() {
      return new Input(slots, split, new HashMap<>(), new HashMap<>());
    }

    private void add(TopicPartition partition, Input from) {
      starts.computeIfAbsent(partition, from.starts::get);
      ends.computeIfAbsent(partition, from.ends::get);
    }

    private void add(Input other) {
      starts.putAll(other.starts);
      ends.putAll(other.ends);
    }
  }

  /** What its writers have written into. */
  List<TransactionRef> transactions() {
    return WriterOutput.transactions(outputs);
  }

  /**
   * This decision, made again by another run so that the lost output counts as done.
   *
   * @param lost the numbers of the writers whose transactions were aborted
   */
  Decision without(Set<Integer> lost, long byRun) {
    List<WriterOutput> kept =
        outputs.stream()
            .map(
                output ->
                    lost.contains(output.writer())
                        ? WriterOutput.withoutTransaction(
                            output.writer(), output.rows(), output.digest())
                        : output)
            .toList();
    return new Decision(byRun, epoch, previous, plan, kept, sources);
  }

  /** The numbers of the writers whose output was lost, where the user has accepted that. */
  Set<Integer> acceptedAsLost() {
    return outputs.stream()
        .filter(output -> output.transaction() == null && output.rows() > 0)
        .map(WriterOutput::writer)
        .collect(Collectors.toSet());
  }

  /** Its records' values; one unless there are very many writers or topic-partitions. */
  List<String> encode() {
    List<Map<String, Input>> sourcesOf = sourcesOfParts();
    int partsOfOutputs = (outputs.size() + OUTPUTS_PER_PART - 1) / OUTPUTS_PER_PART;
    int parts = Math.max(sourcesOf.size(), partsOfOutputs);
    int version = sourcesOf.size() > 1 ? SOURCES_IN_PARTS : DecisionTopic.VERSION;
    List<String> values = new ArrayList<>();
    for (int part = 0; part < parts; part++) {
      ObjectNode node = JSON.createObjectNode();
      node.put("version", version);
      node.put("run", run).put("epoch", epoch).put("part", part).put("parts", parts);
      if (part == 0) {
        node.put("previous", previous);
        node.putObject("plan").put("before", plan.before).put("of", plan.of);
      }
      if (part < sourcesOf.size()) {
        ObjectNode all = node.putObject("sources");
        sourcesOf.get(part).forEach((identity, input) -> encode(input, all.putObject(identity)));
      }
      ArrayNode list = node.putArray("outputs");
      outputs.stream()
          .skip((long) part * OUTPUTS_PER_PART)
          .limit(OUTPUTS_PER_PART)
          .forEach(output -> encode(output, list.addObject()));
      values.add(node.toString());
    }
    return values;
  }

  /** The sources as the parts have them, each with a share of its topic-partitions. */
  private List<Map<String, Input>> sourcesOfParts() {
    List<Map<String, Input>> parts = new ArrayList<>();
    Map<String, Input> part = new TreeMap<>();
    parts.add(part);
    int bytes = 0;
    for (Map.Entry<String, Input> source : sources.entrySet()) {
      Input input = source.getValue();
      part.put(source.getKey(), input.empty());
      Set<TopicPartition> partitions = new HashSet<>(input.starts.keySet());
      partitions.addAll(input.ends.keySet());
      for (TopicPartition partition : partitions) {
        // The topic's name may be there for this partition alone, and twice.
        bytes += OFFSETS_BYTES + 2 * partition.topic().length();
        if (bytes > OFFSETS_BYTES_PER_PART) {
          part = new TreeMap<>();
          parts.add(part);
          bytes = 0;
        }
        part.computeIfAbsent(source.getKey(), identity -> input.empty()).add(partition, input);
      }
    }
    return parts;
  }

  private static void encode(Input input, ObjectNode into) {
    into.put("slots", input.slots);
    if (!input.split.isNone()) {
      into.putObject("split")
          .put("minPartitions", input.split.minPartitions())
          .put("maxRecords", input.split.maxRecords());
    }
    encode(input.starts, into.putObject("starts"));
    encode(input.ends, into.putObject("ends"));
  }

  private static void encode(Map<TopicPartition, Long> offsets, ObjectNode into) {
    offsets.forEach(
        (partition, offset) ->
            Json.objectIn(into, partition.topic())
                .put(Integer.toString(partition.partition()), offset));
  }

  private static void encode(WriterOutput output, ObjectNode into) {
    into.put("writer", output.writer()).put("rows", output.rows()).put("digest", output.digest());
    TransactionRef transaction = output.transaction();
    if (transaction != null) {
      into.put("id", transaction.transactionalId())
          .put("producerId", transaction.producerId())
          .put("producerEpoch", transaction.producerEpoch())
          .put("version2", transaction.version2())
          .put("markerPartition", output.presencePartition())
          .put("markerOffset", output.presenceOffset());
    }
  }

  /**
   * @param values what {@link #encode} gave, in its order; empty for no decision
   * @throws IllegalArgumentException if they are anything else
   */
  static Optional<Decision> decode(List<String> values) {
    if (values.isEmpty()) {
      return Optional.empty();
    }
    JsonNode first = Entry.parse(values.get(0));
    long version = Entry.number(first, "version", DecisionTopic.VERSION, SOURCES_IN_PARTS);
    List<WriterOutput> outputs = new ArrayList<>();
    Map<String, Input> sources = new TreeMap<>();
    for (int part = 0; part < values.size(); part++) {
      JsonNode node = Entry.parse(values.get(part));
      Entry.require(
          Entry.number(node, "version", 0, Integer.MAX_VALUE) == version
              && Entry.number(node, "part", 0, values.size()) == part
              && Entry.number(node, "parts", 1, Integer.MAX_VALUE) == values.size()
              && node.path("run").equals(first.path("run"))
              && node.path("epoch").equals(first.path("epoch")),
          "part " + part + " of " + values.size() + " does not belong to the others");
      Entry.list(node, "outputs").forEach(output -> outputs.add(decode(output)));
      if (part == 0 || version == SOURCES_IN_PARTS && node.has("sources")) {
        Entry.object(node, "sources")
            .properties()
            .forEach(
                source -> {
                  Input input = input(source.getValue());
                  sources.computeIfAbsent(source.getKey(), id -> input.empty()).add(input);
                });
      }
    }
    long writers = outputs.stream().map(WriterOutput::writer).distinct().count();
    Entry.require(writers == outputs.size(), "a writer is in it twice");
    JsonNode plan = Entry.object(first, "plan");
    return Optional.of(
        new Decision(
            Entry.number(first, "run", 1, DecisionTopic.MAX_NUMBER),
            Entry.number(first, "epoch", 0, DecisionTopic.MAX_NUMBER),
            // A former version did not say it.
            first.has("previous")
                ? Entry.number(first, "previous", -1, DecisionTopic.MAX_NUMBER)
                : -1,
            new Plan(Entry.text(plan, "before"), Entry.text(plan, "of")),
            outputs,
            sources));
  }

  private static Input input(JsonNode node) {
    JsonNode split = node.path("split");
    return new Input(
        (int) Entry.number(node, "slots", 0, Integer.MAX_VALUE),
        split.isMissingNode()
            ? SourceOptions.Split.NONE
            : new SourceOptions.Split(
                (int) Entry.number(split, "minPartitions", 0, Integer.MAX_VALUE),
                Entry.number(split, "maxRecords", 0, Long.MAX_VALUE)),
        offsets(Entry.object(node, "starts")),
        offsets(Entry.object(node, "ends")));
  }

  private static WriterOutput decode(JsonNode node) {
    int writer = (int) Entry.number(node, "writer", 0, Integer.MAX_VALUE);
    long rows = Entry.number(node, "rows", 0, Long.MAX_VALUE);
    long digest = Entry.number(node, "digest", Long.MIN_VALUE, Long.MAX_VALUE);
    if (!node.has("id")) {
      return WriterOutput.withoutTransaction(writer, rows, digest);
    }
    return new WriterOutput(
        writer,
        new TransactionRef(
            Entry.text(node, "id"),
            Entry.number(node, "producerId", 0, Long.MAX_VALUE),
            (short) Entry.number(node, "producerEpoch", 0, Short.MAX_VALUE),
            Entry.flag(node, "version2")),
        (int) Entry.number(node, "markerPartition", 0, Integer.MAX_VALUE),
        Entry.number(node, "markerOffset", 0, Long.MAX_VALUE - 1),
        rows,
        digest);
  }

  private static Map<TopicPartition, Long> offsets(JsonNode topics) {
    Map<TopicPartition, Long> offsets = new HashMap<>();
    for (Map.Entry<String, JsonNode> topic : topics.properties()) {
      JsonNode partitions = Entry.object(topics, topic.getKey());
      for (Map.Entry<String, JsonNode> partition : partitions.properties()) {
        String number = partition.getKey();
        Entry.require(number.matches("0|[1-9]\\d{0,8}"), "'" + number + "' is no partition");
        offsets.put(
            new TopicPartition(topic.getKey(), Integer.parseInt(number)),
            Entry.number(partitions, number, 0, Long.MAX_VALUE));
      }
    }
    return offsets;
  }

  /**
   * Checks that a decision is one that its owner's driver can have made.
   *
   * @param lastRun the number of the last run that has claimed the decision id
   * @param prefix of the owner's transactional ids
   * @param ownerId the owner's
   * @param partitions of the decision topic
   * @throws IllegalArgumentException if it is not
   */
  void requireOf(String prefix, String ownerId, long lastRun, int partitions) {
    Entry.require(run <= lastRun, "its run is " + run + ", and the last one is " + lastRun);
    for (WriterOutput output : outputs) {
      TransactionRef transaction = output.transaction();
      if (transaction == null) {
        continue;
      }
      String id = transaction.transactionalId();
      OptionalLong idRun = TransactionalId.runOfWriter(id, prefix, ownerId, output.writer());
      Entry.require(
          idRun.isPresent() && idRun.getAsLong() <= run,
          "'" + id + "' is no transactional id of its writer " + output.writer());
      Entry.require(
          output.presencePartition() > 0
              && output.presencePartition() % 2 != 0
              && output.presencePartition() < partitions,
          "partition " + output.presencePartition() + " holds no presence records");
    }
  }

  /** What to say of it if no run of Spark's writes its lost output again. */
  EosKafkaException incomplete(Collection<Integer> lost, String owner) {
    return EosKafkaException.of(
        "EOSKAFKA_WRITE_INCOMPLETE",
        Map.of("epoch", epoch, "owner", owner, "missing", describe(lost)));
  }

  /** What is missing of it, for an error: writers, their rows, and what the epoch has read. */
  String describe(Collection<Integer> lost) {
    String writers =
        outputs.stream()
            .filter(output -> lost.contains(output.writer()))
            .map(output -> "writer " + output.writer() + " (" + output.rows() + " rows)")
            .collect(Collectors.joining(", "));
    String input =
        sources.values().stream()
            .flatMap(
                source ->
                    source.ends().entrySet().stream()
                        .sorted(Comparator.comparing(end -> end.getKey().toString()))
                        .map(end -> range(source, end.getKey(), end.getValue())))
            .collect(Collectors.joining(", "));
    return writers
        + " of "
        + outputs.size()
        + " writers; the input is "
        + (input.isEmpty()
            ? "between the files " + (epoch - 1) + " and " + epoch + " of the folder offsets"
            : input);
  }

  private static String range(Input source, TopicPartition partition, long end) {
    return partition + " from " + source.starts().get(partition) + " up to " + end;
  }
}
