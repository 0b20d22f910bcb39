package io.eoskafka.bench;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * Puts brokers at a distance: forwards TCP connections, and delivers what each side sends later.
 *
 * <p>Arguments: the delay of each direction in microseconds, and for each broker {@code
 * listen:target}, two ports of 127.0.0.1. It prints a line once it listens, and ends with its
 * standard input. Bytes keep their order, and bandwidth is not limited. A new connection takes a
 * round trip before the first byte goes out, as a handshake does.
 */
public final class DelayLine {
  private static final int CHUNK_BYTES = 256 * 1024;

  /** A sender that is faster than the receiver is held up, as a full window holds it up. */
  private static final int MOST_BYTES = 16 * 1024 * 1024;

  private static final long STACK_BYTES = 128 * 1024;
  private static final int BACKLOG = 1024;

  private final long delayNanos;

  private DelayLine(long delayNanos) {
    this.delayNanos = delayNanos;
  }

  public static void main(String[] arguments) throws IOException {
    DelayLine line = new DelayLine(TimeUnit.MICROSECONDS.toNanos(Long.parseLong(arguments[0])));
    for (int i = 1; i < arguments.length; i++) {
      String[] ports = arguments[i].split(":");
      line.listen(Integer.parseInt(ports[0]), Integer.parseInt(ports[1]));
    }
    System.out.println("ready");
    while (System.in.read() >= 0) {
      // Whoever has started this ends it.
    }
    System.exit(0);
  }

  private void listen(int port, int target) throws IOException {
    InetAddress local = InetAddress.getLoopbackAddress();
    ServerSocket server = new ServerSocket(port, BACKLOG, local);
    start(
        () -> {
          while (true) {
            Socket client = server.accept();
            long earliest = System.nanoTime() + 2 * delayNanos;
            try {
              Socket broker = new Socket(local, target);
              client.setTcpNoDelay(true);
              broker.setTcpNoDelay(true);
              forward(client, broker, earliest);
              forward(broker, client, earliest);
            } catch (IOException e) {
              // The broker is down.
              client.close();
            }
          }
        });
  }

  /** What was read, and when it is delivered; no bytes are the end of the stream. */
  private record Chunk(byte[] bytes, long dueNanos) {}

  private void forward(Socket from, Socket to, long earliestNanos) {
    BlockingQueue<Chunk> underWay = new LinkedBlockingQueue<>();
    Semaphore room = new Semaphore(MOST_BYTES);
    start(() -> read(from, underWay, room, earliestNanos));
    start(() -> deliver(underWay, room, from, to));
  }

  private void read(Socket from, BlockingQueue<Chunk> underWay, Semaphore room, long earliestNanos)
      throws InterruptedException {
    byte[] buffer = new byte[CHUNK_BYTES];
    int length = 0;
    while (length >= 0) {
      try {
        length = from.getInputStream().read(buffer);
      } catch (IOException e) {
        // A connection that is reset ends, too.
        length = -1;
      }
      byte[] bytes = new byte[Math.max(0, length)];
      System.arraycopy(buffer, 0, bytes, 0, bytes.length);
      long sent = System.nanoTime();
      long due = (sent - earliestNanos < 0 ? earliestNanos : sent) + delayNanos;
      room.acquire(bytes.length);
      underWay.put(new Chunk(bytes, due));
    }
  }

  private static void deliver(BlockingQueue<Chunk> underWay, Semaphore room, Socket from, Socket to)
      throws IOException, InterruptedException {
    try {
      while (true) {
        Chunk chunk = underWay.take();
        for (long left; (left = chunk.dueNanos() - System.nanoTime()) > 0; ) {
          LockSupport.parkNanos(left);
        }
        if (chunk.bytes().length == 0) {
          // The other direction may go on.
          to.shutdownOutput();
          return;
        }
        to.getOutputStream().write(chunk.bytes());
        room.release(chunk.bytes().length);
      }
    } catch (IOException e) {
      // The receiver is gone: whoever sends to it learns of that.
      from.close();
      to.close();
      room.release(MOST_BYTES);
    }
  }

  private interface Work {
    void run() throws IOException, InterruptedException;
  }

  private static void start(Work work) {
    Runnable guarded =
        () -> {
          try {
            work.run();
          } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
          }
        };
    Thread thread = new Thread(null, guarded, "delay-line", STACK_BYTES);
    thread.setDaemon(true);
    thread.start();
  }
}
