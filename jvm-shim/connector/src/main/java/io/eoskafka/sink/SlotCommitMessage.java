package io.eoskafka.sink;

import io.eoskafka.task.SlotCommit;
import java.util.List;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * @param commits empty from a task that had no input: Spark runs one for a batch with no partitions
 */
record SlotCommitMessage(List<SlotCommit> commits) implements WriterCommitMessage {}
