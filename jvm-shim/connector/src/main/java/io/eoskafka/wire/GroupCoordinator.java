package io.eoskafka.wire;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.message.FindCoordinatorRequestData;
import org.apache.kafka.common.message.FindCoordinatorResponseData;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.FindCoordinatorRequest;
import org.apache.kafka.common.requests.FindCoordinatorResponse;

/**
 * The coordinator of a group, as a broker names it.
 *
 * <p>It does not come from a description of the group: there is none if the group is empty and was
 * deleted, or if a member subscribes to a topic that this user may not describe.
 *
 * @param error {@code NONE} if there is one; a broker with stale metadata may name a former one,
 *     which says so when it is asked for something
 * @param node only without an error
 */
public record GroupCoordinator(Errors error, Node node) {

  /** Requests to one broker. */
  @FunctionalInterface
  public interface Requests {
    AbstractResponse ask(Node broker, AbstractRequest.Builder<?> request) throws IOException;
  }

  /**
   * Asks any of these brokers.
   *
   * @throws IOException if it does not answer
   */
  public static GroupCoordinator find(Collection<Node> brokers, String group, Requests requests)
      throws IOException {
    FindCoordinatorRequestData data =
        new FindCoordinatorRequestData()
            .setKeyType(FindCoordinatorRequest.CoordinatorType.GROUP.id())
            .setCoordinatorKeys(List.of(group));
    List<Node> shuffled = new ArrayList<>(brokers);
    if (shuffled.isEmpty()) {
      throw new IOException("no broker is known");
    }
    // So that not every try asks a broker that does not answer.
    Collections.shuffle(shuffled);
    FindCoordinatorResponse response =
        (FindCoordinatorResponse)
            requests.ask(shuffled.get(0), new FindCoordinatorRequest.Builder(data));
    FindCoordinatorResponseData.Coordinator found =
        response.coordinatorByKey(group).orElseThrow(() -> new IOException("no answer"));
    return new GroupCoordinator(
        Errors.forCode(found.errorCode()), new Node(found.nodeId(), found.host(), found.port()));
  }
}
