package io.eoskafka.source;

import org.apache.spark.unsafe.types.BinaryView;

/** A row of which Spark 4.2 and later may ask a binary column as a view. */
final class BinaryViewRow extends RecordRow {
  private static final long serialVersionUID = 1L;

  BinaryViewRow(boolean includeHeaders) {
    super(includeHeaders);
  }

  @Override
  public BinaryView getBinaryView(int ordinal) {
    byte[] bytes = getBinary(ordinal);
    return bytes == null ? null : BinaryView.fromBytes(bytes);
  }
}
