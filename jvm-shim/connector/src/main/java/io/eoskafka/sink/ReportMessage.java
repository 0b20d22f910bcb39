package io.eoskafka.sink;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.io.UncheckedIOException;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * A task's report to the driver after it has committed or prepared, as bytes. Spark sends it with
 * the session's serializer, and if that cannot serialize it, as Kryo cannot serialize Java records,
 * the task would fail after its transaction has ended.
 */
final class ReportMessage implements WriterCommitMessage {
  private static final long serialVersionUID = 1L;

  private final byte[] content;

  private ReportMessage(byte[] content) {
    this.content = content;
  }

  static ReportMessage of(Serializable content) {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(content);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return new ReportMessage(bytes.toByteArray());
  }

  /** The report that this message was made from. */
  <T> T as(Class<T> type) {
    try (ObjectInputStream in = new ObjectInputStream(new ByteArrayInputStream(content))) {
      return type.cast(in.readObject());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (ClassNotFoundException e) {
      throw new IllegalStateException(e);
    }
  }
}
