package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead.RecordStatus;
import org.junit.jupiter.api.Test;

class SlotReaderTest {
  @Test
  void isAskedBySpark41sSignatureAndByLaterOnes() throws NoSuchMethodException {
    RealTimeSlotReader nothingToRead = new RealTimeSlotReader(null, null, null, null, null, false);

    assertThat(nothingToRead.nextWithTimeout(10L).hasRecord()).isFalse();
    assertThat(nothingToRead.nextWithTimeout(1L, 10L).hasRecord()).isFalse();
    // This build's interface does not ask for it.
    assertThat(RealTimeSlotReader.class.getMethod("nextWithTimeout", Long.class).getReturnType())
        .isEqualTo(RecordStatus.class);
  }
}
