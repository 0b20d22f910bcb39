package io.eoskafka.decision;

import io.eoskafka.transaction.TransactionRef;
import java.io.Serializable;
import java.util.List;
import java.util.Objects;

/**
 * What one writer of an epoch has written.
 *
 * @param writer the number of its task in the writing stage
 * @param transaction null where it had no rows
 * @param presencePartition of the decision topic, where the transaction has its marker
 * @param presenceOffset where the marker is
 * @param rows how many rows
 * @param digest of the rows, whatever their order
 */
public record WriterOutput(
    int writer,
    TransactionRef transaction,
    int presencePartition,
    long presenceOffset,
    long rows,
    long digest)
    implements Serializable {

  /** Where a writer without a transaction has its presence record. */
  private static final int NOWHERE = -1;

  /** Of a writer whose rows are in no transaction. */
  public static WriterOutput withoutTransaction(int writer, long rows, long digest) {
    return new WriterOutput(writer, null, NOWHERE, NOWHERE, rows, digest);
  }

  /** The transactions of those that have one. */
  static List<TransactionRef> transactions(List<WriterOutput> outputs) {
    return outputs.stream().map(WriterOutput::transaction).filter(Objects::nonNull).toList();
  }

  /** Whether another run of the writer has made the same rows. */
  public boolean isRepeatedBy(WriterOutput other) {
    return rows == other.rows && digest == other.digest;
  }
}
