package io.eoskafka.spark;

import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;

/** The methods that are needed of Spark's {@code CheckpointFileManager}. */
interface CheckpointFileSystem {
  /** The setting that names the class that writes Spark's logs. */
  String MANAGER = "spark.sql.streaming.checkpointFileManagerClass";

  /** The prefix of the names of Spark's own classes. */
  String SPARKS = "org.apache.spark.sql.execution.streaming.";

  boolean exists(Path path) throws Exception;

  InputStream open(Path path) throws Exception;

  void delete(Path path) throws Exception;

  void mkdirs(Path path) throws Exception;

  FileStatus[] list(Path path, PathFilter filter) throws Exception;

  /** The file appears when the stream is closed, and not before. */
  FSDataOutputStream createAtomic(Path path, boolean overwritesIfPossible) throws Exception;

  /** A stream of Spark's {@code createAtomic}. */
  interface Cancellable {
    void cancel() throws IOException;
  }

  /** Cancels what {@link #createAtomic} has begun: the former file stays. */
  static void cancel(FSDataOutputStream out) throws IOException {
    if (out.hasCapability(CommonPathCapabilities.ABORTABLE_STREAM)) {
      out.abort();
    } else {
      MovedClass.CANCELLABLE_STREAM.view(out).cancel();
    }
  }

  /**
   * The file system of a folder: Spark's, unless the folder is on a local disk or in an object
   * store.
   */
  static CheckpointFileSystem of(Path folder, Configuration hadoop) {
    try {
      FileSystem store = folder.getFileSystem(hadoop);
      if (store.hasPathCapability(folder, CommonPathCapabilities.ABORTABLE_STREAM)) {
        return new ObjectStore(store);
      }
      boolean isSparks = hadoop.get(MANAGER, SPARKS).startsWith(SPARKS);
      if (isSparks && store instanceof LocalFileSystem disk) {
        return new LocalDisk(disk);
      }
      return MovedClass.CHECKPOINT_FILE_MANAGER.view(
          MovedClass.CHECKPOINT_FILE_MANAGER.callStatic("create", folder, hadoop));
    } catch (RuntimeException | Error e) {
      throw e;
    } catch (Throwable e) {
      throw CheckpointFolder.failed(folder, (Exception) e);
    }
  }
}
