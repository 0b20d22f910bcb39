package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;

import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead.RecordStatus;
import org.junit.jupiter.api.Test;

class SlotReaderTest {
  @Test
  void isAskedBySpark41sSignatureAndByLaterOnes() throws NoSuchMethodException {
    SlotReader nothingToRead = new SlotReader(null, null, null, null, null, false);

    assertThat(nothingToRead.nextWithTimeout(10L).hasRecord()).isFalse();
    assertThat(nothingToRead.nextWithTimeout(1L, 10L).hasRecord()).isFalse();
    // This build's interface does not ask for it.
    assertThat(SlotReader.class.getMethod("nextWithTimeout", Long.class).getReturnType())
        .isEqualTo(RecordStatus.class);
  }
}
