package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What happens if records or partitions that a query needs are gone. */
class DataLossPolicyTest {
  private static final TopicPartition PARTITION = new TopicPartition("t", 0);
  private static final DataLossPolicy STRICT = new DataLossPolicy(true);
  private static final DataLossPolicy LENIENT = new DataLossPolicy(false);

  @ParameterizedTest(name = "{0} in a log from 10 to 20: {1}")
  @CsvSource({"9, 10", "10, 10", "15, 15", "20, 20", "21, 20"})
  void aStartIsKeptWithinTheLogOrTheQueryFails(long start, long kept) {
    assertThat(LENIENT.keepWithinLog(PARTITION, start, 10, 20)).isEqualTo(kept);
    if (start == kept) {
      assertThat(STRICT.keepWithinLog(PARTITION, start, 10, 20)).isEqualTo(start);
    } else {
      assertThatThrownBy(() -> STRICT.keepWithinLog(PARTITION, start, 10, 20))
          .hasMessageContaining("[EOSKAFKA_DATA_LOSS]");
    }
  }

  @ParameterizedTest
  @CsvSource({"9, true", "10, false", "20, false", "21, true"})
  void anOffsetThatAUserHasGivenIsRefusedOutsideTheLog(long start, boolean isRefused) {
    assertThat(LENIENT.requireInLog(PARTITION, start, 10, 20)).isEqualTo(start);
    if (isRefused) {
      assertThatThrownBy(() -> STRICT.requireInLog(PARTITION, start, 10, 20))
          .hasMessageContaining("[EOSKAFKA_START_OUT_OF_RANGE]");
    } else {
      assertThat(STRICT.requireInLog(PARTITION, start, 10, 20)).isEqualTo(start);
    }
  }

  @Test
  void aReaderSkipsWhatIsGoneOrFails() {
    RuntimeException refusal = new OffsetOutOfRangeException("5");
    LENIENT.skipWhileReading(PARTITION, 5, 20, 10, refusal);
    assertThatThrownBy(() -> STRICT.skipWhileReading(PARTITION, 5, 20, 10, refusal))
        .hasMessageContaining("[EOSKAFKA_DATA_LOSS_WHILE_READING]")
        .hasMessageContaining("t-0")
        .hasCause(refusal);
  }

  @Test
  void aPartitionThatIsGoneIsSkippedOrTheQueryFails() {
    LENIENT.skipPartition(PARTITION, 5L);
    assertThatThrownBy(() -> STRICT.skipPartition(PARTITION, 5L))
        .hasMessageContaining("[EOSKAFKA_PARTITION_GONE]")
        .hasMessageContaining("t-0");
  }

  @ParameterizedTest(name = "from {0} to {1}, log {2} to {3}, truncated {4}: continues at {5}")
  @CsvSource({
    // Retention has taken the first records, some of them or all.
    "5, 20, 10, 20, false, 10",
    "5, 20, 30, 20, false, 20",
    "5, 9223372036854775807, 30, 40, false, 30",
    // The log ends before the offset, so the range has no record.
    "15, 20, 0, 20, false, 20",
    "15, 9223372036854775807, 0, 12, false, 12",
    // The log was truncated: what it has now at these offsets is read.
    "15, 20, 0, 20, true, 15",
    "15, 9223372036854775807, 0, 12, true, 15",
    "20, 20, 0, 20, true, 20",
    "5, 20, 10, 20, true, 10",
  })
  void continuesWithTheNextRecordThatIsThere(
      long from, long end, long logStart, long logEnd, boolean isTruncated, long next) {
    assertThat(DataLossPolicy.afterLoss(from, end, logStart, logEnd, isTruncated)).isEqualTo(next);
  }
}
