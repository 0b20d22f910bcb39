package io.eoskafka.source;

import io.eoskafka.task.SlotWork;
import io.eoskafka.task.TaskTransaction;
import java.util.OptionalLong;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.streaming.SupportsRealTimeRead;

/** A reader that real-time mode may have: Spark 4.0 has no such interface. */
final class RealTimeSlotReader extends SlotReader implements SupportsRealTimeRead<InternalRow> {
  RealTimeSlotReader(
      SlotConsumer consumer,
      TaskTransaction transaction,
      SlotWork work,
      RecordRow row,
      ReadCounts counts,
      boolean rests) {
    super(consumer, transaction, work, row, counts, rests);
  }

  /** Spark 4.1's signature. Spark 4.3 has both. */
  public RecordStatus nextWithTimeout(Long timeoutMs) {
    return nextWithTimeout(null, timeoutMs);
  }

  @Override
  public RecordStatus nextWithTimeout(Long startTimeMs, Long timeoutMs) {
    if (!nextWithin(timeoutMs)) {
      return RecordStatus.newStatusWithoutArrivalTime(false);
    }
    OptionalLong arrival = arrivalTimeMs();
    return arrival.isEmpty()
        ? RecordStatus.newStatusWithoutArrivalTime(true)
        : RecordStatus.newStatusWithArrivalTimeMs(arrival.getAsLong());
  }
}
