package io.eoskafka.decision;

import java.io.Serializable;

/**
 * What a writer in epoch scope tells the driver.
 *
 * @param isFirstAttempt false where another attempt of the writer may be left that will not report
 */
public record WriterReport(WriterOutput output, boolean isFirstAttempt) implements Serializable {}
