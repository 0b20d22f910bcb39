package io.eoskafka.decision;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.config.SourceOptions.Split;
import io.eoskafka.transaction.TransactionRef;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class DecisionTest {
  private static final Decision.Plan PLAN =
      Decision.Plan.ofFiles(Optional.of("starts"), Optional.of("ends"));

  private static Decision decision(int writers) {
    List<WriterOutput> outputs = new ArrayList<>();
    for (int writer = 0; writer < writers; writer++) {
      TransactionRef transaction =
          writer == 1 ? null : new TransactionRef("p-q-w3.0." + writer, 77, (short) 5, true);
      outputs.add(
          transaction == null
              ? new WriterOutput(writer, null, -1, -1, 0, 0)
              : new WriterOutput(writer, transaction, 5, 1L << 40, writer, Long.MIN_VALUE));
    }
    TopicPartition partition = new TopicPartition("a.topic", 12);
    return new Decision(
        3,
        9,
        8,
        PLAN,
        outputs,
        Map.of("source", input(partition, Split.NONE), "other", input(partition, new Split(8, 1))));
  }

  private static Decision.Input input(TopicPartition partition, Split split) {
    return new Decision.Input(2, split, Map.of(partition, 5L), Map.of(partition, 7L));
  }

  @Test
  void isReadAsItWasWritten() {
    Decision written = decision(3);
    assertThat(Decision.decode(written.encode())).contains(written);
    assertThat(written.encode()).hasSize(1);
  }

  @Test
  void ofVeryManyWritersIsSeveralRecordsEachFarBelowTheLimitOfOne() {
    Decision written = decision(5_000);
    List<String> records = written.encode();
    assertThat(records).hasSize(3).allMatch(record -> record.length() < 500_000);
    assertThat(Decision.decode(records)).contains(written);
  }

  /** Of two sources, the second with so many partitions. */
  private static Decision decision(int writers, int topics, int partitions, int nameLength) {
    Map<TopicPartition, Long> starts = new HashMap<>();
    Map<TopicPartition, Long> ends = new HashMap<>();
    for (int topic = 0; topic < topics; topic++) {
      String name = String.format("%0" + nameLength + "d", topic);
      for (int partition = 0; partition < partitions; partition++) {
        starts.put(new TopicPartition(name, partition), Long.MAX_VALUE - 1);
        ends.put(new TopicPartition(name, partition), Long.MAX_VALUE);
      }
    }
    Decision few = decision(writers);
    Decision.Input many = new Decision.Input(2, new Split(8, 1), starts, ends);
    Map<String, Decision.Input> sources =
        Map.of("source", few.sources().get("source"), "second", many);
    return new Decision(3, 9, 8, PLAN, few.outputs(), sources);
  }

  @ParameterizedTest(name = "{0} topics of {1} partitions")
  @CsvSource({"1, 30000, 20", "3000, 1, 249"})
  void ofVeryManyPartitionsIsSeveralRecordsEachBelowTheLimitOfOne(
      int topics, int partitions, int nameLength) {
    Decision written = decision(5_000, topics, partitions, nameLength);
    List<String> records = written.encode();
    assertThat(records).hasSizeGreaterThan(3).allMatch(record -> record.length() < 900_000);
    assertThat(Decision.decode(records)).contains(written);
  }

  @Test
  void ofVeryManyPartitionsIsNotReadByAFormerVersion() {
    // It would know the first record's partitions alone.
    assertThat(decision(1, 1, 30_000, 20).encode())
        .allMatch(record -> record.startsWith("{\"version\":2,"));
    assertThat(decision(5_000).encode()).allMatch(record -> record.startsWith("{\"version\":1,"));
  }

  @Test
  void withAPartOfAnotherOneIsNone() {
    List<String> mixed = new ArrayList<>(decision(5_000).encode());
    mixed.remove(1);
    assertThatThrownBy(() -> Decision.decode(mixed)).isInstanceOf(IllegalArgumentException.class);
  }
}
