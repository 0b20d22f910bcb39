package io.eoskafka.decision;

import io.eoskafka.transaction.TransactionCounts;
import java.io.Serializable;

/**
 * What a writer in epoch scope tells the driver.
 *
 * @param isFirstAttempt false where another attempt of the writer may be left that will not report,
 *     or where this one may initialise its id after it has reported
 * @param failed what attempts before it had to give up
 */
public record WriterReport(WriterOutput output, boolean isFirstAttempt, TransactionCounts failed)
    implements Serializable {}
