package io.eoskafka.wire;

import io.eoskafka.config.ClientSettings;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.ClientResponse;
import org.apache.kafka.clients.ClientUtils;
import org.apache.kafka.clients.DefaultHostResolver;
import org.apache.kafka.clients.ManualMetadataUpdater;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.clients.NetworkClientUtils;
import org.apache.kafka.clients.NodeApiVersions;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.Time;

/**
 * Kafka's network client, for requests to chosen brokers that no public client sends. Not thread
 * safe.
 */
public final class BrokerRequests implements AutoCloseable {
  public static final int TIMEOUT_MS = 10_000;

  private static final int IN_FLIGHT = 100;

  /** How soon a wait for an answer ends after if the thread was interrupted. */
  private static final long POLL_MS = 100;

  /** A request was sent, at least partly, and got no answer: the broker may still carry it out. */
  public static final class UnansweredException extends IOException {
    private static final long serialVersionUID = 1L;

    public UnansweredException(String message) {
      super(message);
    }
  }

  private final Metrics metrics = new Metrics();
  private final ManualMetadataUpdater nodes = new ManualMetadataUpdater();
  private final ApiVersions versions = new ApiVersions();
  private final NetworkClient client;
  private final int timeoutMs;

  /**
   * @param name client id, and the prefix of its log lines
   */
  public BrokerRequests(ClientSettings settings, String name) {
    this(settings, name, TIMEOUT_MS);
  }

  /**
   * @param timeoutMs how long to wait for a connection, and then for an answer
   */
  public BrokerRequests(ClientSettings settings, String name, int timeoutMs) {
    this(settings.admin(name), name, timeoutMs);
  }

  /**
   * The same, but opens a new connection for a request that comes long after the last one: a
   * firewall or proxy may have silently dropped the old connection.
   *
   * @param idleMs how long a connection may be idle
   */
  public BrokerRequests(ClientSettings settings, String name, int timeoutMs, long idleMs) {
    this(
        with(settings.admin(name), AdminClientConfig.CONNECTIONS_MAX_IDLE_MS_CONFIG, idleMs),
        name,
        timeoutMs);
  }

  private static Map<String, Object> with(Map<String, Object> config, String key, Object value) {
    config.put(key, value);
    return config;
  }

  private BrokerRequests(Map<String, Object> config, String name, int timeoutMs) {
    this.timeoutMs = timeoutMs;
    client =
        ClientUtils.createNetworkClient(
            new AdminClientConfig(config),
            name,
            metrics,
            name,
            new LogContext("[" + name + "] "),
            versions,
            Time.SYSTEM,
            IN_FLIGHT,
            timeoutMs,
            null,
            nodes,
            new DefaultHostResolver(),
            null,
            null);
  }

  /** The brokers that requests may go to from now on. */
  public void setNodes(Collection<Node> known) {
    nodes.setNodes(List.copyOf(known));
  }

  public NetworkClient client() {
    return client;
  }

  /**
   * Sends one request and waits for its answer.
   *
   * @param node one of {@link #setNodes}
   * @throws IOException if there is no connection, or it breaks
   */
  public AbstractResponse ask(Node node, AbstractRequest.Builder<?> request) throws IOException {
    return ask(node, request, timeoutMs);
  }

  /**
   * The same with a different timeout for the connection.
   *
   * @param connectMs how long to wait for a connection
   */
  AbstractResponse ask(Node node, AbstractRequest.Builder<?> request, long connectMs)
      throws IOException {
    if (!NetworkClientUtils.awaitReady(client, node, Time.SYSTEM, connectMs)) {
      throw new IOException("no connection to " + node);
    }
    return NetworkClientUtils.sendAndReceive(
            client,
            client.newClientRequest(node.idString(), request, Time.SYSTEM.milliseconds(), true),
            Time.SYSTEM)
        .responseBody();
  }

  /**
   * As {@link #ask}, for a request that must not be repeated unless it was answered.
   *
   * @param answerMs how long the answer may take
   * @throws UnansweredException if there is no answer in time, or the connection breaks before the
   *     answer
   * @throws IOException if there is no connection
   * @throws InterruptException if the thread was interrupted
   */
  public AbstractResponse askOnce(Node node, AbstractRequest.Builder<?> request, int answerMs)
      throws IOException {
    if (!NetworkClientUtils.awaitReady(client, node, Time.SYSTEM, timeoutMs)) {
      throw new IOException("no connection to " + node);
    }
    List<ClientResponse> answers = new ArrayList<>();
    long now = Time.SYSTEM.milliseconds();
    client.send(
        client.newClientRequest(node.idString(), request, now, true, answerMs, answers::add), now);
    while (answers.isEmpty()) {
      // The client itself would loop without a pause.
      if (Thread.currentThread().isInterrupted()) {
        throw new InterruptException(new InterruptedException());
      }
      client.poll(POLL_MS, Time.SYSTEM.milliseconds());
    }
    ClientResponse answer = answers.get(0);
    if (answer.wasDisconnected()) {
      throw new UnansweredException(
          answer.wasTimedOut()
              ? "it has not answered within " + answerMs + " ms"
              : "the connection broke");
    }
    if (answer.versionMismatch() != null) {
      throw answer.versionMismatch();
    }
    return answer.responseBody();
  }

  /** The API versions that a connected broker supports; empty before it is connected. */
  public Optional<NodeApiVersions> versions(Node node) {
    return Optional.ofNullable(versions.get(node.idString()));
  }

  /**
   * Whether the connection to a broker has failed.
   *
   * @throws org.apache.kafka.common.errors.AuthenticationException if the broker refuses this user
   */
  public boolean hasFailed(Node node) {
    if (client.authenticationException(node) != null) {
      throw client.authenticationException(node);
    }
    return client.connectionFailed(node);
  }

  @Override
  public void close() {
    client.close();
    metrics.close();
  }
}
