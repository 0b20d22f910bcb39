package io.eoskafka.sink;

import io.eoskafka.task.SlotCommit;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * @param commit null from a task that had no input: Spark runs one for a batch with no partitions
 */
record SlotCommitMessage(SlotCommit commit) implements WriterCommitMessage {}
