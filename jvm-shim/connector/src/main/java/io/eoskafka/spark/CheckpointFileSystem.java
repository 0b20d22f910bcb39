package io.eoskafka.spark;

import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;

/** What is needed of Spark's {@code CheckpointFileManager}. */
interface CheckpointFileSystem {
  boolean exists(Path path) throws Exception;

  InputStream open(Path path) throws Exception;

  void delete(Path path) throws Exception;

  void mkdirs(Path path) throws Exception;

  FileStatus[] list(Path path, PathFilter filter) throws Exception;

  /** The file is there when the stream is closed, and not before. */
  FSDataOutputStream createAtomic(Path path, boolean overwritesIfPossible) throws Exception;

  /** A stream of {@code createAtomic}. */
  interface Cancellable {
    void cancel() throws IOException;
  }

  /** The one that Spark has for a folder. */
  static CheckpointFileSystem of(Path folder, Configuration hadoop) {
    try {
      return MovedClass.CHECKPOINT_FILE_MANAGER.view(
          MovedClass.CHECKPOINT_FILE_MANAGER.callStatic("create", folder, hadoop));
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw CheckpointFolder.failed(folder, (Exception) e);
    }
  }
}
