package io.eoskafka.spark;

import java.io.ByteArrayOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.UUID;
import org.apache.hadoop.fs.Abortable;
import org.apache.hadoop.fs.CommonPathCapabilities;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.StreamCapabilities;

/**
 * A checkpoint on a local disk: a file is replaced by one rename, once its content is on the disk.
 *
 * <p>Hadoop keeps the checksum of a file in another one. Spark's file managers replace the two one
 * after the other: a driver that dies in between leaves new content with the checksum of the former
 * one, and Hadoop refuses to read it. So the connector's files have no checksums, and existing ones
 * are ignored.
 */
record LocalDisk(LocalFileSystem disk) implements CheckpointFileSystem {
  @Override
  public boolean exists(Path path) throws IOException {
    return disk.getRaw().exists(path);
  }

  @Override
  public InputStream open(Path path) throws IOException {
    return disk.getRaw().open(path);
  }

  @Override
  public void delete(Path path) throws IOException {
    disk.delete(path, true);
  }

  @Override
  public void mkdirs(Path path) throws IOException {
    if (!disk.mkdirs(path)) {
      throw new IOException("the folder cannot be created");
    }
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) throws IOException {
    return disk.listStatus(path, filter);
  }

  @Override
  public FSDataOutputStream createAtomic(Path path, boolean overwritesIfPossible) {
    return new FSDataOutputStream(new Replacement(disk.pathToFile(path).toPath()), null);
  }

  /** Replaces the file when it is closed. */
  private static final class Replacement extends ByteArrayOutputStream
      implements Abortable, StreamCapabilities {
    private final java.nio.file.Path file;

    Replacement(java.nio.file.Path file) {
      this.file = file;
    }

    @Override
    public void close() throws IOException {
      java.nio.file.Path temporary = hidden(UUID.randomUUID() + ".tmp");
      try {
        // Not interrupted by a query's stop, unlike a channel.
        try (FileOutputStream out = new FileOutputStream(temporary.toFile())) {
          writeTo(out);
          out.getFD().sync();
        }
        Files.deleteIfExists(hidden("crc"));
        Files.move(temporary, file, StandardCopyOption.ATOMIC_MOVE);
      } finally {
        Files.deleteIfExists(temporary);
      }
    }

    private java.nio.file.Path hidden(String suffix) {
      return file.resolveSibling("." + file.getFileName() + "." + suffix);
    }

    /** Nothing is written before it is closed, and a failed write leaves nothing behind. */
    @Override
    public AbortableResult abort() {
      return null;
    }

    @Override
    public boolean hasCapability(String capability) {
      return capability.equals(CommonPathCapabilities.ABORTABLE_STREAM);
    }
  }
}
