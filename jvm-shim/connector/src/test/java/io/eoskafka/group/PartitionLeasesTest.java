package io.eoskafka.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.group.Membership.Ownership;
import io.eoskafka.identity.Fence;
import java.time.Duration;
import java.util.AbstractSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Slot 0 reads the partitions A and B, slot 1 reads C. */
@Timeout(30)
class PartitionLeasesTest {
  private static final TopicPartition A = new TopicPartition("t", 0);
  private static final TopicPartition B = new TopicPartition("t", 1);
  private static final TopicPartition C = new TopicPartition("t", 2);
  private static final Set<TopicPartition> ALL = Set.of(A, B, C);
  private static final long ATTEMPT = 7;
  private static final long ANOTHER = 8;
  private static final String ID = "id-0";
  private static final String ID_1 = "id-1";
  private static final Duration LONG = Duration.ofSeconds(20);

  private final PartitionLeases leases = new PartitionLeases();
  private long plan;

  @BeforeEach
  void aBatchIsPlanned() {
    leases.assign(fence(1), ALL);
    Map<TopicPartition, Long> terms = owned(ALL).terms();
    plan =
        leases.begin(
            Map.of(0, Map.of(A, terms.get(A), B, terms.get(B)), 1, Map.of(C, terms.get(C))));
  }

  /** What happens after the plan, and which slots' attempts may have a lease then. */
  record Case(String what, Consumer<PartitionLeases> happens, boolean slot0, boolean slot1) {
    @Override
    public String toString() {
      return what;
    }
  }

  static List<Case> cases() {
    return List.of(
        new Case("nothing", it -> {}, true, true),
        new Case("another generation", it -> it.setFence(fence(2)), true, true),
        new Case("a generation without an id", it -> it.setFence(Optional.empty()), true, true),
        new Case("a partition is lost", it -> it.lose(Set.of(B)), false, true),
        new Case(
            "a partition is lost and comes back",
            it -> {
              it.lose(Set.of(C));
              it.assign(fence(2), Set.of(C));
            },
            true,
            false),
        new Case(
            "a partition is assigned again", it -> it.assign(fence(2), Set.of(A)), false, true),
        new Case(
            "a partition waits to be given up", it -> it.giveUp(Set.of(A), soon()), true, true),
        new Case("the batch ends", PartitionLeases::end, false, false),
        new Case("the membership fails", it -> it.fail(new IllegalStateException()), false, false),
        new Case("the driver leaves", PartitionLeases::close, false, false));
  }

  @ParameterizedTest
  @MethodSource("cases")
  void anAttemptGetsALeaseOnlyInTheTermsOfItsPlan(Case after) {
    after.happens().accept(leases);
    for (int slot : List.of(0, 1)) {
      boolean isAllowed = slot == 0 ? after.slot0() : after.slot1();
      assertThat(leases.isOwned(plan, List.of(slot))).isEqualTo(isAllowed);
      assertThat(leases.hasMoved(plan, List.of(slot))).isEqualTo(!isAllowed);
      assertThat(leases.lease(plan, List.of(slot), ATTEMPT, ID).isPresent()).isEqualTo(isAllowed);
    }
    assertThat(leases.isOwned(plan, List.of(0, 1))).isEqualTo(after.slot0() && after.slot1());
  }

  @Test
  void aLeaseIsTheFenceOfNow() {
    leases.setFence(fence(5));
    assertThat(leases.lease(plan, List.of(0), ATTEMPT, ID)).isEqualTo(fence(5));
  }

  @Test
  void aSlotThatWasNotPlannedHasNoLease() {
    assertThat(leases.lease(plan, List.of(2), ATTEMPT, ID)).isEmpty();
    assertThat(leases.lease(plan + 1, List.of(0), ATTEMPT, ID)).isEmpty();
  }

  @Test
  void whatOneAttemptSaidIsTheBatchs() {
    leases.lease(plan, List.of(0), ATTEMPT, ID);
    leases.ended(plan, List.of(0), ATTEMPT);
    assertThat(leases.lease(plan, List.of(0), ANOTHER, ID_1)).isEmpty();
    assertThat(leases.hasMoved(plan, List.of(0))).isFalse();
  }

  @Test
  void aSlotIsInUseWhileAnotherAttemptHasALease() {
    leases.lease(plan, List.of(0), ATTEMPT, ID);
    leases.lease(plan, List.of(0), ANOTHER, ID_1);
    leases.ended(plan, List.of(0), ATTEMPT);
    assertThat(leases.giveUp(Set.of(A), soon())).isFalse();
    leases.ended(plan, List.of(0), ANOTHER);
    assertThat(leases.giveUp(Set.of(A), soon())).isTrue();
  }

  @Test
  void thePlanOfBeforeSaysNothing() {
    leases.lease(plan, List.of(0), ATTEMPT, ID);
    leases.ended(plan - 1, List.of(0), ATTEMPT);
    assertThat(leases.end()).isEqualTo(Map.of(0, Set.of(ID)));
  }

  @Test
  void theSamePlanOnceMoreKeepsLeases() {
    leases.lease(plan, List.of(0), ATTEMPT, ID);
    Map<TopicPartition, Long> terms = owned(ALL).terms();
    Map<Integer, Map<TopicPartition, Long>> same =
        Map.of(0, Map.of(A, terms.get(A), B, terms.get(B)), 1, Map.of(C, terms.get(C)));
    assertThat(leases.begin(same)).isEqualTo(plan);
    assertThat(leases.end()).isEqualTo(Map.of(0, Set.of(ID)));
    assertThat(leases.begin(Map.of())).isGreaterThan(plan);
  }

  @Test
  void anAttemptOfAReplacedPlanGetsNoLease() {
    long next = leases.begin(Map.of(0, Map.of(A, owned(ALL).terms().get(A))));
    assertThat(leases.lease(plan, List.of(0), ATTEMPT, ID)).isEmpty();
    assertThat(leases.hasMoved(plan, List.of(0))).isTrue();
    assertThat(leases.lease(next, List.of(0), ATTEMPT, ID)).isPresent();
  }

  @Test
  void aLostPartitionNamesTheLeasesOverIt() {
    leases.lease(plan, List.of(0), ATTEMPT, ID);
    leases.lease(plan, List.of(1), ANOTHER, ID_1);
    assertThat(leases.lose(Set.of(B))).containsExactly(ID);
    assertThat(owned(ALL).terms()).containsOnlyKeys(A, C);
    assertThat(owned(ALL).ownershipLosses()).isEqualTo(1);
  }

  @Test
  void aPartitionThatIsToBeGivenUpIsPlannedNoMore() {
    assertThat(leases.giveUp(Set.of(A), soon())).isFalse();
    assertThat(owned(ALL).terms()).containsOnlyKeys(B, C);
    leases.lose(Set.of(A));
    leases.assign(fence(2), Set.of(A));
    assertThat(owned(ALL).terms()).containsOnlyKeys(A, B, C);
  }

  @Test
  void onlyKnownPartitionsAreOwned() {
    assertThat(owned(Set.of(A)).terms()).containsOnlyKeys(A);
  }

  @Test
  void aPartitionIsInUseUntilTheEndedBatchIsReleased() {
    leases.lease(plan, List.of(0), ATTEMPT, ID);
    leases.end();
    assertThat(leases.giveUp(Set.of(A), soon())).isFalse();
    leases.release();
    assertThat(leases.giveUp(Set.of(A), soon())).isTrue();
    assertThat(owned(ALL).terms()).containsOnlyKeys(B, C);
  }

  @Test
  void aPartitionIsGivenUpWhenTheAttemptThatHasReadItHasEnded() throws Exception {
    leases.lease(plan, List.of(0), ATTEMPT, ID);
    CompletableFuture<Boolean> givenUp = giveUpElsewhere(A);
    leases.ended(plan, List.of(0), ATTEMPT);
    assertThat(givenUp.get(LONG.toSeconds(), TimeUnit.SECONDS)).isTrue();
    assertThat(owned(ALL).terms()).containsOnlyKeys(B, C);
  }

  @Test
  void whoLeavesWaitsForNobody() throws Exception {
    CompletableFuture<Boolean> givenUp = giveUpElsewhere(A);
    leases.close();
    assertThat(givenUp.get(LONG.toSeconds(), TimeUnit.SECONDS)).isTrue();
    assertThat(leases.isClosing()).isTrue();
    assertThat(leases.assign(fence(2), Set.of(A))).isFalse();
  }

  @Test
  void aStartIsCommittedInTheTermInWhichItWasFoundOnly() {
    Map<TopicPartition, Long> found = owned(ALL).terms();
    assertThat(leases.areInTerms(ALL, found)).isTrue();
    assertThat(leases.areInTerms(ALL, Map.of(A, found.get(A)))).isFalse();
    leases.lose(Set.of(A));
    assertThat(leases.areInTerms(Set.of(A), found)).isFalse();
    leases.assign(fence(2), Set.of(A));
    assertThat(leases.areInTerms(Set.of(A), found)).isFalse();
    assertThat(leases.areInTerms(Set.of(B, C), found)).isTrue();
  }

  @Test
  void ownershipWaitsForTheFirstFence() throws Exception {
    PartitionLeases before = new PartitionLeases();
    assertThat(before.ownership(ALL, soon())).isEmpty();
    long deadline = System.nanoTime() + LONG.toNanos();
    CompletableFuture<Optional<Ownership>> waits =
        CompletableFuture.supplyAsync(() -> before.ownership(ALL, deadline));
    before.assign(fence(1), Set.of(A));
    Ownership first = waits.get(LONG.toSeconds(), TimeUnit.SECONDS).orElseThrow();
    assertThat(first.fence()).isEqualTo(fence(1).orElseThrow());
    assertThat(first.terms()).containsOnlyKeys(A);
  }

  @Test
  void aFailureIsThrownToWhoAsks() {
    IllegalStateException failure = new IllegalStateException("fenced");
    leases.fail(failure);
    assertThatThrownBy(leases::requireOwnership).isSameAs(failure);
    assertThatThrownBy(() -> leases.ownership(ALL, soon())).isSameAs(failure);
    PartitionLeases never = new PartitionLeases();
    never.fail(failure);
    assertThatThrownBy(() -> never.ownership(ALL, soon())).isSameAs(failure);
  }

  /**
   * Gives a partition up on another thread, and returns when that thread holds the monitor: what
   * this one does next comes when the other one waits, or has its answer.
   */
  private CompletableFuture<Boolean> giveUpElsewhere(TopicPartition partition)
      throws InterruptedException {
    CountDownLatch inMonitor = new CountDownLatch(1);
    Set<TopicPartition> observed =
        new AbstractSet<>() {
          @Override
          public Iterator<TopicPartition> iterator() {
            assertThat(Thread.holdsLock(leases)).isTrue();
            inMonitor.countDown();
            return Set.of(partition).iterator();
          }

          @Override
          public int size() {
            return 1;
          }
        };
    long deadline = System.nanoTime() + LONG.toNanos();
    CompletableFuture<Boolean> givenUp =
        CompletableFuture.supplyAsync(() -> leases.giveUp(observed, deadline));
    assertThat(inMonitor.await(LONG.toSeconds(), TimeUnit.SECONDS)).isTrue();
    return givenUp;
  }

  private Ownership owned(Set<TopicPartition> known) {
    return leases.ownership(known, soon()).orElseThrow();
  }

  private static long soon() {
    return System.nanoTime() + Duration.ofMillis(20).toNanos();
  }

  private static Optional<Fence> fence(int generation) {
    return Optional.of(new Fence("g", generation, "member", null));
  }
}
