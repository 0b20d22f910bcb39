package io.eoskafka.source;

import io.eoskafka.task.SlotWork;
import org.apache.spark.sql.connector.read.InputPartition;

/**
 * One slot of one batch, as Spark ships it to a task.
 *
 * @param preferred Spark's name of the executor that keeps the slot's clients, or empty
 * @param rests whether its consumer is to rest for the next batch
 */
record SlotPartition(SlotWork work, String[] preferred, boolean rests) implements InputPartition {
  @Override
  public String[] preferredLocations() {
    return preferred;
  }
}
