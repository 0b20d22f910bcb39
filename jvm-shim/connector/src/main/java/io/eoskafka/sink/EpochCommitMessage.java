package io.eoskafka.sink;

import io.eoskafka.decision.WriterOutput;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * @param isFirstAttempt false where another attempt of the writer may be left that will not report
 */
record EpochCommitMessage(WriterOutput output, boolean isFirstAttempt)
    implements WriterCommitMessage {}
