package io.eoskafka.spark;

import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;

/**
 * A checkpoint in an object store: a file is replaced by one request with its whole content, which
 * is sent when the stream is closed.
 *
 * <p>Spark's own file manager writes another object and renames it. In an object store, a rename
 * deletes the object that it replaces and then copies, so a driver that dies in between leaves no
 * object. Spark's manager for abortable streams logs an error of the last request but does not
 * report it. Besides, each manager creates its own clients, which are never closed; this class uses
 * Hadoop's shared ones.
 */
record ObjectStore(FileSystem store) implements CheckpointFileSystem {
  @Override
  public boolean exists(Path path) throws IOException {
    return store.exists(path);
  }

  @Override
  public InputStream open(Path path) throws IOException {
    return store.open(path);
  }

  @Override
  public void delete(Path path) throws IOException {
    store.delete(path, true);
  }

  /** An object needs no folder. */
  @Override
  public void mkdirs(Path path) {}

  @Override
  public FileStatus[] list(Path path, PathFilter filter) throws IOException {
    return store.listStatus(path, filter);
  }

  @Override
  public FSDataOutputStream createAtomic(Path path, boolean overwritesIfPossible)
      throws IOException {
    return store.create(path, overwritesIfPossible);
  }
}
