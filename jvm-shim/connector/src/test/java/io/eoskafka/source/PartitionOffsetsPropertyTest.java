package io.eoskafka.source;

import static io.eoskafka.foreign.ForeignInput.any;
import static io.eoskafka.foreign.ForeignInput.number;
import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.config.EosKafkaException;
import io.eoskafka.foreign.Corpus;
import io.eoskafka.foreign.ForeignInput;
import io.eoskafka.foreign.MemoryFiles;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import net.jqwik.api.Arbitraries;
import net.jqwik.api.Arbitrary;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.Provide;
import net.jqwik.api.Tag;
import org.apache.kafka.common.TopicPartition;

/** Offsets as either connector, or a user, has them in a text. */
class PartitionOffsetsPropertyTest {
  private static final TopicPartition ONE = new TopicPartition("t", 0);

  @Property
  @Tag("reader")
  void anyTextGivesOffsetsOrIsRefused(@ForAll("texts") String text) {
    Optional<PartitionOffsets> read = MemoryFiles.read(() -> PartitionOffsets.parse(text, "f"));
    read.ifPresent(
        found -> {
          assertThat(found.offsets()).doesNotContainValue(null);
          assertThat(found.offsets().keySet()).allMatch(partition -> partition.partition() >= 0);
          assertThat(found.json()).isEqualTo(text);
        });
    Map<String, Long> offsets = new TreeMap<>();
    read.ifPresent(
        found ->
            found.offsets().forEach((partition, offset) -> offsets.put("" + partition, offset)));
    Corpus.add("offsets", text, read.isPresent() ? offsets : null);
  }

  @Property
  @Tag("reader")
  void anyOptionGivesOffsetsOrIsRefused(@ForAll("texts") String text) {
    try {
      assertThat(PartitionOffsets.parseOption("startingOffsets", text, List.of(ONE)))
          .doesNotContainValue(null);
    } catch (EosKafkaException e) {
      assertThat(e.condition()).isEqualTo("EOSKAFKA_BAD_OFFSET_JSON");
    }
  }

  @Property
  void offsetsAreReadAsTheyWereWritten(@ForAll("offsets") Map<TopicPartition, Long> offsets) {
    assertThat(PartitionOffsets.parse(PartitionOffsets.of(offsets).json(), "f").offsets())
        .isEqualTo(offsets);
  }

  @Provide
  Arbitrary<Map<TopicPartition, Long>> offsets() {
    return Arbitraries.randomValue(PartitionOffsetsPropertyTest::some);
  }

  @Provide
  Arbitrary<String> texts() {
    return Arbitraries.randomValue(
        random ->
            ForeignInput.damagedJson(
                random,
                random.nextInt(8) == 0
                    ? "{\"t\":\"earliest\",\"u\":{\"0\":1}}"
                    : PartitionOffsets.of(some(random)).json()));
  }

  static Map<TopicPartition, Long> some(Random random) {
    Map<TopicPartition, Long> offsets = new HashMap<>();
    for (int i = random.nextInt(5); i > 0; i--) {
      offsets.put(
          new TopicPartition(
              any(random, List.of("t", "a.topic", "0", "-_.")),
              (int) number(random, 0, Integer.MAX_VALUE)),
          number(random, -2, Long.MAX_VALUE - 3));
    }
    return offsets;
  }
}
