package io.eoskafka.transaction;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.common.utils.Utils;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class TransactionListsTest {
  @ParameterizedTest
  @ValueSource(ints = {1, 4, 50, 128, 480})
  void everyPartitionOfTheTransactionLogHasAProbe(int partitions) {
    // Hash codes above and below 0.
    for (String prefix : new String[] {"eoskafka", "payments", "a", "", "pre.fix*[x]"}) {
      assertThat(
              TransactionLists.probes(prefix).stream()
                  // As brokers choose an id's partition.
                  .map(id -> Utils.abs(id.hashCode()) % partitions)
                  .collect(Collectors.toSet()))
          .as(prefix)
          .isEqualTo(IntStream.range(0, partitions).boxed().collect(Collectors.toSet()));
    }
  }

  @Test
  void aProbeIsCoveredByRightsOnThePrefix() {
    assertThat(TransactionLists.probes("payments-eos"))
        .allMatch(id -> id.startsWith("payments-eos-"));
  }
}
