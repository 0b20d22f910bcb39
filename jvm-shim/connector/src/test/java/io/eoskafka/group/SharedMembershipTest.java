package io.eoskafka.group;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.config.ClientSettings;
import io.eoskafka.config.SourceOptions;
import io.eoskafka.identity.Fence;
import io.eoskafka.identity.Identity;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A driver that never joins: its thread is not started, and no broker is asked. */
@Timeout(30)
class SharedMembershipTest {
  private static final TopicPartition A = new TopicPartition("t", 0);
  private static final long ATTEMPT = 7;
  private static final String ID = "id-0";

  private final List<String> fenced = new ArrayList<>();
  private Consumer<List<String>> whileFencing = ids -> {};
  private final SharedMembership member =
      new SharedMembership(
          settings(),
          Identity.of("g", "p", "/checkpoint", true),
          null,
          new GroupInspector.Release(0, false),
          ids -> {
            whileFencing.accept(ids);
            fenced.addAll(ids);
          },
          () -> {});

  @AfterEach
  void close() {
    member.close();
  }

  @Test
  void aPartitionIsNotGivenUpWhileTheProducersThatHaveALeaseOverItAreFenced() {
    aTaskHasALease();
    whileFencing =
        ids -> assertThat(member.leases().giveUp(Set.of(A), System.nanoTime())).isFalse();
    assertThat(member.end()).containsExactly(0);
    assertThat(fenced).containsExactly(ID);
    assertThat(member.leases().giveUp(Set.of(A), System.nanoTime())).isTrue();
  }

  @Test
  void aBatchWhoseProducersCannotBeFencedIsReleasedAndCountsAsALossOfOwnership() {
    aTaskHasALease();
    whileFencing =
        ids -> {
          throw new IllegalStateException("no coordinator answers");
        };
    assertThat(member.end()).containsExactly(0);
    assertThat(owned().ownershipLosses()).isEqualTo(1);
    assertThat(member.leases().giveUp(Set.of(A), System.nanoTime())).isTrue();
  }

  @Test
  void aBatchWhoseAttemptsHaveAllEndedHasNobodyToFence() {
    long plan = aTaskHasALease();
    member.leases().ended(plan, List.of(0), ATTEMPT);
    assertThat(member.end()).isEmpty();
    assertThat(fenced).isEmpty();
    assertThat(owned().ownershipLosses()).isZero();
  }

  private long aTaskHasALease() {
    member.leases().assign(Optional.of(new Fence("g", 1, "member", null)), Set.of(A));
    long plan = member.begin(Map.of(0, owned().terms()));
    assertThat(member.leases().lease(plan, List.of(0), ATTEMPT, ID)).isPresent();
    return plan;
  }

  private Membership.Ownership owned() {
    return member.leases().ownership(Set.of(A), System.nanoTime()).orElseThrow();
  }

  private static ClientSettings settings() {
    return SourceOptions.parse(
            new CaseInsensitiveStringMap(
                Map.of(
                    "kafka.bootstrap.servers",
                    "localhost:9",
                    "subscribe",
                    "t",
                    "kafka.group.id",
                    "g",
                    "ownership",
                    "shared")))
        .client();
  }
}
