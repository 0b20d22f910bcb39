package io.eoskafka.bench;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.Reader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.CommonClientConfigs;

/**
 * A benchmark's peer in a JVM of its own, which stays warm from run to run.
 *
 * <p>Arguments: which peer, bootstrap servers, and a properties file with settings of its clients,
 * {@code consumer.<name>} and {@code producer.<name>}. Each line of standard input is one run:
 * input topic, output topic, and a name that is new to the cluster. The answer is one line with the
 * nanoseconds that the run took, from where its clients were ready to the end of its last
 * transaction. What JVM, network and group need to start is not in it. With a fourth word, the
 * milliseconds between two commits, it goes on copying what comes, says so with an empty line once
 * it runs, ends at the next line, and says so with another.
 */
public final class PeerProgram {
  /** Threads of every peer, as many as a benchmark's Spark session has cores. */
  static final int THREADS = 2;

  private PeerProgram() {}

  /** One peer. */
  interface Peer {
    /**
     * @return nanoseconds
     */
    long run(String input, String output, String name) throws Exception;

    /** Copies until it is closed, and commits at this interval; returns once it runs. */
    default AutoCloseable follow(String input, String output, String name, Duration commitInterval)
        throws Exception {
      throw new UnsupportedOperationException("it follows no topic");
    }
  }

  /** The settings of one kind of client. */
  record Clients(String servers, Map<String, Object> consumer, Map<String, Object> producer) {
    static Clients read(String servers, Path file) throws IOException {
      Properties properties = new Properties();
      try (Reader reader = Files.newBufferedReader(file, StandardCharsets.UTF_8)) {
        properties.load(reader);
      }
      return new Clients(servers, of("consumer.", properties), of("producer.", properties));
    }

    private static Map<String, Object> of(String prefix, Properties properties) {
      Map<String, Object> settings = new HashMap<>();
      for (String name : properties.stringPropertyNames()) {
        if (name.startsWith(prefix)) {
          settings.put(name.substring(prefix.length()), properties.getProperty(name));
        }
      }
      return settings;
    }

    Map<String, Object> admin() {
      return Map.of(CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG, servers);
    }
  }

  public static void main(String[] arguments) throws Exception {
    Clients clients = Clients.read(arguments[1], Path.of(arguments[2]));
    Peer peer =
        switch (arguments[0]) {
          case "loop" -> new TransactionLoop(clients);
          case "streams" -> new StreamsCopy(clients);
          case "read" -> new ReadOnly(clients);
          case "write" -> new WriteOnly(clients);
          default -> throw new IllegalArgumentException("no peer " + arguments[0]);
        };
    serve(peer);
  }

  /** Runs what standard input asks for, until its end. */
  static void serve(Peer peer) throws Exception {
    BufferedReader runs =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = runs.readLine(); line != null; line = runs.readLine()) {
      String[] run = line.split(" ");
      if (run.length == 3) {
        System.out.println(peer.run(run[0], run[1], run[2]));
      } else {
        AutoCloseable following =
            peer.follow(run[0], run[1], run[2], Duration.ofMillis(Long.parseLong(run[3])));
        System.out.println();
        runs.readLine();
        following.close();
        System.out.println();
      }
      // What this run has left in the heap is not the next one's to clear away.
      System.gc();
    }
  }
}
