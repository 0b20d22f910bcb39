package io.eoskafka.decision;

import static io.eoskafka.foreign.ForeignInput.any;
import static io.eoskafka.foreign.ForeignInput.number;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.eoskafka.config.EosKafkaException;
import io.eoskafka.config.SourceOptions.Split;
import io.eoskafka.foreign.Corpus;
import io.eoskafka.foreign.ForeignInput;
import io.eoskafka.identity.Identity;
import io.eoskafka.transaction.TransactionRef;
import io.eoskafka.transaction.TransactionalId;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Random;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.Example;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tag;
import net.jqwik.api.statistics.Statistics;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/** Whatever is in the decision topic, a start believes what a driver of its query has written. */
class DecisionEntriesPropertyTest {
  private static final ObjectMapper JSON = new ObjectMapper();

  private static final Path CORPUS = Path.of("..", "..", "tests", "unit", "foreign_corpus.jsonl");

  private static final String OWNER = Identity.digest("ours");
  private static final String OTHER = Identity.digest("another's");

  /** One begins with another, and one ends as a batch job's does. */
  private static final List<String> PREFIXES =
      List.of("p", "p-2", "p-" + OTHER, "my.[x]*", "p-job");

  /**
   * Entries in the order of the log; a value that is null removes its key.
   *
   * @param prefix of the owner's transactional ids
   */
  record Log(String prefix, int partitions, List<Map.Entry<String, Optional<String>>> entries) {
    String decisionId() {
      return TransactionalId.ofDecisions(prefix, OWNER);
    }

    DecisionEntries read() {
      DecisionEntries read = new DecisionEntries("decisions", OWNER);
      for (Map.Entry<String, Optional<String>> entry : entries) {
        read.take(
            new ConsumerRecord<>(
                "decisions",
                0,
                0,
                entry.getKey().getBytes(StandardCharsets.UTF_8),
                entry
                    .getValue()
                    .map(value -> value.getBytes(StandardCharsets.UTF_8))
                    .orElse(null)));
      }
      return read;
    }

    /** What a start believes; empty if it refuses the log by a condition. */
    Optional<Read> result() {
      try {
        DecisionEntries read = read();
        long run = read.run().map(DecisionEntries.Run::number).orElse(0L);
        return Optional.of(new Read(run, read.last(decisionId(), partitions)));
      } catch (EosKafkaException e) {
        assertThat(e.condition()).isIn("EOSKAFKA_DECISION_UNREADABLE", "EOSKAFKA_NEWER_DECISIONS");
        // One that Entry has found, and no other that happens to be of this type.
        assertThat(
                e.getCause() == null || e.getCause().getClass() == IllegalArgumentException.class)
            .as("%s", e.getCause())
            .isTrue();
        return Optional.empty();
      }
    }

    /** What compaction leaves in the end. */
    Log compacted() {
      Map<String, Optional<String>> last = new LinkedHashMap<>();
      entries.forEach(
          entry -> {
            last.remove(entry.getKey());
            last.put(entry.getKey(), entry.getValue());
          });
      return new Log(prefix, partitions, List.copyOf(last.entrySet()));
    }
  }

  record Read(long run, Optional<Decision> last) {}

  @Property
  @Tag("reader")
  void aLogIsReadOrRefusedByNameAndNamesItsOwnersTransactionsOnly(@ForAll("logs") Log log) {
    Optional<Read> read = log.result();
    Statistics.label("read")
        .collect(read.isPresent())
        .coverage(coverage -> coverage.check(true).percentage(share -> share > 5));
    read.ifPresent(
        found ->
            found
                .last()
                .ifPresent(
                    decision -> requireOwn(decision, log.prefix(), found.run(), log.partitions())));
    Corpus.add(
        "entries", corpus(log), read.map(DecisionEntriesPropertyTest::corpus).orElse("refused"));
  }

  /** Python reads the same file. */
  @Example
  void theSharedCorpusIsReadAsItSays() throws IOException {
    for (String line : Files.readAllLines(CORPUS)) {
      JsonNode node = JSON.readTree(line);
      if (!node.get(0).asText().equals("entries")) {
        continue;
      }
      JsonNode given = node.get(1);
      List<Map.Entry<String, Optional<String>>> entries = new ArrayList<>();
      given
          .get(3)
          .forEach(
              entry ->
                  entries.add(
                      Map.entry(
                          entry.get(0).asText(), Optional.ofNullable(entry.get(1).textValue()))));
      Log log = new Log(given.get(1).asText(), given.get(2).asInt(), entries);
      Object read = log.result().map(DecisionEntriesPropertyTest::corpus).orElse("refused");
      assertThat(JSON.readTree(JSON.writeValueAsString(read))).as(line).isEqualTo(node.get(2));
    }
  }

  private static Object corpus(Log log) {
    return List.of(
        OWNER,
        log.prefix(),
        log.partitions(),
        log.entries().stream()
            .map(entry -> Arrays.asList(entry.getKey(), entry.getValue().orElse(null)))
            .toList());
  }

  private static Object corpus(Read read) {
    return Map.of(
        "run",
        read.run(),
        "epoch",
        read.last().map(Decision::epoch).orElse(-1L),
        "transactions",
        read.last().stream()
            .flatMap(decision -> decision.outputs().stream())
            .map(WriterOutput::transaction)
            .filter(Objects::nonNull)
            .map(of -> List.of(of.transactionalId(), of.producerId(), of.producerEpoch()))
            .toList());
  }

  /** By hand, and not by the pattern that the connector has for it. */
  private static void requireOwn(Decision decision, String prefix, long lastRun, int partitions) {
    assertThat(decision.run()).isBetween(1L, lastRun);
    for (WriterOutput output : decision.outputs()) {
      if (output.transaction() == null) {
        continue;
      }
      String id = output.transaction().transactionalId();
      String own = prefix + "-" + OWNER + "-w";
      assertThat(id).startsWith(own);
      String[] numbers = id.substring(own.length()).split("\\.", -1);
      assertThat(numbers).hasSizeBetween(3, 6).allMatch(part -> part.matches("[0-9]+"));
      assertThat(Long.parseLong(numbers[0])).isBetween(0L, decision.run());
      assertThat(numbers[2]).isEqualTo(Integer.toString(output.writer()));
      assertThat(output.presencePartition() % 2).isEqualTo(1);
      assertThat(output.presencePartition()).isBetween(0, partitions - 1);
      assertThat(output.presenceOffset()).isNotNegative();
    }
  }

  @Property
  void whatADriverWritesIsReadAsItWasWritten(@ForAll("written") Written written) {
    assertThat(written.log().result())
        .contains(new Read(written.run(), Optional.of(written.decision())));
  }

  /** A tombstone, or an entry put right, is the way out that the condition's message names. */
  @Property
  @Tag("reader")
  void anEntryThatWasReplacedOrRemovedDoesNotCount(@ForAll("logs") Log log) {
    assertThat(log.compacted().result()).isEqualTo(log.result());
  }

  @Property
  void theNextRunCanBeReadToo(@ForAll("logs") Log log) {
    DecisionEntries read = log.read();
    long next;
    try {
      next = read.nextRun(() -> 1);
    } catch (EosKafkaException e) {
      return;
    }
    List<Map.Entry<String, Optional<String>>> entries = new ArrayList<>(log.entries());
    entries.add(Map.entry("run:" + OWNER, Optional.of(runEntry(log.prefix(), next))));
    assertThat(new Log(log.prefix(), log.partitions(), entries).read().run())
        .contains(new DecisionEntries.Run(next, log.decisionId()));
    String name = TransactionalId.ofWriter(log.prefix(), OWNER, next, 0, 0, 1, 0, 0);
    assertThat(TransactionalId.runOfWriter(name, log.prefix(), OWNER, 1)).hasValue(next);
  }

  @Example
  void aFirstRunThatNoLaterStartCouldReadIsRefused() {
    DecisionEntries none = new DecisionEntries("decisions", OWNER);
    assertThatThrownBy(() -> none.nextRun(() -> DecisionTopic.MAX_NUMBER + 1))
        .isInstanceOf(EosKafkaException.class)
        .hasMessageContaining("EOSKAFKA_DECISION_UNREADABLE");
  }

  @Property
  @Tag("reader")
  void aDecisionWithOneIdThatIsNotItsWritersIsRefused(
      @ForAll("written") Written written, @ForAll Random random) {
    List<WriterOutput> outputs = new ArrayList<>(written.decision().outputs());
    List<WriterOutput> named =
        outputs.stream().filter(output -> output.transaction() != null).toList();
    if (named.isEmpty()) {
      return;
    }
    WriterOutput output = any(random, named);
    String id = foreign(random, written, output);
    outputs.set(
        outputs.indexOf(output),
        new WriterOutput(
            output.writer(),
            new TransactionRef(id, 1, (short) 0, true),
            output.presencePartition(),
            output.presenceOffset(),
            output.rows(),
            output.digest()));
    Decision decision = written.decision();
    Decision forged =
        new Decision(
            decision.run(),
            decision.epoch(),
            decision.previous(),
            decision.plan(),
            outputs,
            decision.sources());
    Log log = log(written.log().prefix(), written.log().partitions(), written.run(), forged);
    assertThatThrownBy(() -> log.read().last(log.decisionId(), log.partitions()))
        .as(id)
        .isInstanceOf(EosKafkaException.class)
        .hasMessageContaining("EOSKAFKA_DECISION_UNREADABLE");
  }

  private static String foreign(Random random, Written written, WriterOutput output) {
    String prefix = written.log().prefix();
    String own = output.transaction().transactionalId();
    int writer = output.writer();
    long run = written.decision().run();
    return switch (random.nextInt(10)) {
      case 0 -> TransactionalId.ofWriter(prefix, OTHER, run, 0, 0, writer, 0, 0);
      case 1 -> TransactionalId.ofWriter("q" + prefix, OWNER, run, 0, 0, writer, 0, 0);
      case 2 -> TransactionalId.ofWriter(prefix + "-job", OWNER, run, 0, 0, writer, 0, 0);
      case 3 -> TransactionalId.ofDecisions(prefix, OWNER);
      case 4 -> TransactionalId.ofSlot(prefix, "group", OWNER, writer);
      case 5 -> TransactionalId.ofSlot(prefix, own, OTHER, writer);
      case 6 -> prefix + "-" + OWNER + "-w" + "9".repeat(20) + ".0." + writer;
      case 7 -> TransactionalId.ofWriter(prefix, OWNER, run + 1, 0, 0, writer, 0, 0);
      case 8 -> TransactionalId.ofWriter(prefix, OWNER, run, 0, 0, writer + 1, 0, 0);
      default -> own + any(random, List.of("\n", " ", ".0", "x", "\u0663", "-0"));
    };
  }

  @Provide
  Arbitrary<Log> logs() {
    return Arbitraries.randomValue(DecisionEntriesPropertyTest::log);
  }

  @Provide
  Arbitrary<Written> written() {
    return Arbitraries.randomValue(DecisionEntriesPropertyTest::written);
  }

  /** A decision, and the log that it is the last one of. */
  record Written(long run, Decision decision, Log log) {}

  private static Written written(Random random) {
    String prefix = any(random, PREFIXES);
    int partitions = 2 * (1 + random.nextInt(4));
    long run = number(random, 1, DecisionTopic.MAX_NUMBER);
    Decision decision = decision(random, prefix, run, partitions);
    return new Written(run, decision, log(prefix, partitions, run, decision));
  }

  private static Log log(String prefix, int partitions, long run, Decision decision) {
    List<Map.Entry<String, Optional<String>>> entries = new ArrayList<>();
    entries.add(Map.entry("run:" + OWNER, Optional.of(runEntry(prefix, run))));
    List<String> values = decision.encode();
    for (int part = 0; part < values.size(); part++) {
      entries.add(Map.entry("decision:" + OWNER + ":" + part, Optional.of(values.get(part))));
    }
    return new Log(prefix, partitions, entries);
  }

  /** What several runs and others have written, with faults in some of it. */
  private static Log log(Random random) {
    String prefix = any(random, PREFIXES);
    int partitions = 2 * (1 + random.nextInt(4));
    List<Map.Entry<String, Optional<String>>> entries = new ArrayList<>();
    for (int steps = 1 + random.nextInt(3); steps > 0; steps--) {
      long run = number(random, 1, DecisionTopic.MAX_NUMBER);
      if (random.nextInt(8) > 0) {
        entries.add(Map.entry("run:" + OWNER, Optional.of(runEntry(prefix, run))));
      }
      List<String> values =
          split(random, decision(random, prefix, run, partitions).encode().get(0));
      for (int part = 0; part < values.size(); part++) {
        entries.add(Map.entry("decision:" + OWNER + ":" + part, Optional.of(values.get(part))));
      }
    }
    for (int faults = random.nextInt(3); faults > 0 && !entries.isEmpty(); faults--) {
      damage(random, entries);
    }
    return new Log(prefix, partitions, entries);
  }

  private static void damage(Random random, List<Map.Entry<String, Optional<String>>> entries) {
    int at = random.nextInt(entries.size());
    String key = entries.get(at).getKey();
    Optional<String> value = entries.get(at).getValue();
    switch (random.nextInt(8)) {
      case 0 -> entries.add(Map.entry(key, Optional.empty()));
      case 1 -> entries.add(random.nextInt(entries.size() + 1), entries.get(at));
      case 2 -> entries.add(Map.entry(damagedKey(random, key), value));
      case 3 -> entries.add(Map.entry(key.replace(OWNER, OTHER), value));
      case 4 -> entries.set(at, Map.entry(key, Optional.of(ForeignInput.noise(random))));
      default ->
          entries.set(
              at, Map.entry(key, value.map(text -> ForeignInput.damagedJson(random, text))));
    }
    if (random.nextInt(8) == 0) {
      entries.remove(random.nextInt(entries.size()));
    }
  }

  private static String damagedKey(Random random, String key) {
    return switch (random.nextInt(4)) {
      case 0 -> ForeignInput.damaged(random, key);
      case 1 -> "decision:" + OWNER + ":" + any(random, List.of("00", "-1", "x:0", "", "\u0663"));
      case 2 -> "decision:" + OWNER + ":" + random.nextInt(4);
      default -> "run:" + OWNER;
    };
  }

  private static String runEntry(String prefix, long run) {
    return JSON.createObjectNode()
        .put("version", 1)
        .put("run", run)
        .put("decisionId", TransactionalId.ofDecisions(prefix, OWNER))
        .toString();
  }

  /** The same decision in several parts, as very many writers would have it. */
  private static List<String> split(Random random, String value) {
    int parts = Math.max(1, random.nextInt(5) - 1);
    ObjectNode whole;
    try {
      whole = (ObjectNode) JSON.readTree(value);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
    JsonNode outputs = whole.get("outputs");
    List<String> values = new ArrayList<>();
    for (int part = 0; part < parts; part++) {
      ObjectNode node = whole.deepCopy();
      node.put("part", part).put("parts", parts);
      if (part > 0) {
        node.remove(List.of("plan", "sources"));
      }
      ArrayNode some = node.putArray("outputs");
      for (int output = part; output < outputs.size(); output += parts) {
        some.add(outputs.get(output));
      }
      values.add(node.toString());
    }
    return values;
  }

  private static Decision decision(Random random, String prefix, long lastRun, int partitions) {
    long run = number(random, 1, lastRun);
    long epoch = number(random, 0, DecisionTopic.MAX_NUMBER);
    List<WriterOutput> outputs = new ArrayList<>();
    int step = random.nextInt(4) == 0 ? 1 + random.nextInt(100_000_000) : 1;
    for (int i = random.nextInt(5); i > 0; i--) {
      int writer = i * step;
      outputs.add(
          random.nextInt(4) == 0
              ? new WriterOutput(writer, null, -1, -1, rows(random), random.nextLong())
              : new WriterOutput(
                  writer,
                  transaction(random, prefix, run, epoch, writer),
                  1 + 2 * random.nextInt(partitions / 2),
                  number(random, 0, Long.MAX_VALUE - 1),
                  rows(random),
                  random.nextLong()));
    }
    Map<String, Decision.Input> sources = new HashMap<>();
    for (int source = random.nextInt(3); source > 0; source--) {
      sources.put(ForeignInput.digest(random), input(random));
    }
    Decision.Plan plan =
        random.nextInt(8) == 0
            ? Decision.Plan.NONE
            : new Decision.Plan(ForeignInput.digest(random), ForeignInput.digest(random));
    return new Decision(run, epoch, number(random, -1, epoch), plan, outputs, sources);
  }

  private static long rows(Random random) {
    return number(random, 0, Long.MAX_VALUE);
  }

  private static TransactionRef transaction(
      Random random, String prefix, long run, long epoch, int writer) {
    return new TransactionRef(
        TransactionalId.ofWriter(
            prefix,
            OWNER,
            number(random, 1, run),
            random.nextInt(3),
            epoch,
            writer,
            random.nextInt(2),
            random.nextInt(2)),
        number(random, 0, Long.MAX_VALUE),
        (short) number(random, 0, Short.MAX_VALUE),
        random.nextBoolean());
  }

  private static Decision.Input input(Random random) {
    Map<TopicPartition, Long> starts = new HashMap<>();
    Map<TopicPartition, Long> ends = new HashMap<>();
    for (int i = random.nextInt(4); i > 0; i--) {
      TopicPartition partition =
          new TopicPartition(
              any(random, List.of("t", "a.topic", "0", "-_.")), random.nextInt(1_000));
      starts.put(partition, number(random, 0, Long.MAX_VALUE));
      ends.put(partition, number(random, 0, Long.MAX_VALUE));
    }
    Split split =
        random.nextBoolean()
            ? Split.NONE
            : new Split(
                (int) number(random, 0, Integer.MAX_VALUE), number(random, 0, Long.MAX_VALUE));
    return new Decision.Input((int) number(random, 0, Integer.MAX_VALUE), split, starts, ends);
  }
}
