package io.eoskafka.wire;

import io.eoskafka.config.ClientSettings;
import java.io.IOException;
import java.util.Collection;
import java.util.List;
import java.util.Optional;
import org.apache.kafka.clients.ApiVersions;
import org.apache.kafka.clients.ClientRequest;
import org.apache.kafka.clients.ClientUtils;
import org.apache.kafka.clients.DefaultHostResolver;
import org.apache.kafka.clients.ManualMetadataUpdater;
import org.apache.kafka.clients.NetworkClient;
import org.apache.kafka.clients.NetworkClientUtils;
import org.apache.kafka.clients.NodeApiVersions;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.common.Node;
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

  /** A request was sent, or a part of it, and has no answer: the broker may carry it out later. */
  public static final class UnansweredException extends IOException {
    private static final long serialVersionUID = 1L;

    public UnansweredException(IOException cause) {
      super(cause);
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
   * @param timeoutMs how long a connection may take to come about, and then an answer
   */
  public BrokerRequests(ClientSettings settings, String name, int timeoutMs) {
    this.timeoutMs = timeoutMs;
    client =
        ClientUtils.createNetworkClient(
            new AdminClientConfig(settings.admin(name)),
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
   * @throws UnansweredException the connection breaks
   * @throws IOException no connection comes about
   */
  public AbstractResponse ask(Node node, AbstractRequest.Builder<?> request) throws IOException {
    return ask(node, request, timeoutMs);
  }

  /**
   * As the other one, with another time for the connection.
   *
   * @param connectMs how long a connection may take to come about
   */
  AbstractResponse ask(Node node, AbstractRequest.Builder<?> request, long connectMs)
      throws IOException {
    if (!NetworkClientUtils.awaitReady(client, node, Time.SYSTEM, connectMs)) {
      throw new IOException("no connection to " + node);
    }
    ClientRequest sent =
        client.newClientRequest(node.idString(), request, Time.SYSTEM.milliseconds(), true);
    try {
      return NetworkClientUtils.sendAndReceive(client, sent, Time.SYSTEM).responseBody();
    } catch (IOException e) {
      throw new UnansweredException(e);
    }
  }

  /** What a broker that is connected has said it can do; empty before. */
  public Optional<NodeApiVersions> versions(Node node) {
    return Optional.ofNullable(versions.get(node.idString()));
  }

  /**
   * Whether no connection to a broker comes about.
   *
   * @throws org.apache.kafka.common.errors.AuthenticationException if it refuses this user
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
