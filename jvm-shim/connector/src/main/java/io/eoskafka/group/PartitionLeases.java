package io.eoskafka.group;

import io.eoskafka.group.Membership.Ownership;
import io.eoskafka.identity.Fence;
import io.eoskafka.wire.KafkaCalls;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InterruptException;

/**
 * Which partitions a driver of a shared group owns, and which attempts may commit their offsets.
 *
 * <p>Each assignment of a partition is a <em>term</em> with its own number. A batch is planned in
 * the current terms, and a task attempt gets the driver's fence (a <em>lease</em>) only while all
 * partitions of its slots are still in the terms in which they were planned. A partition is given
 * up only when no slot that reads it is in use any more. If it is lost earlier, the attempts that
 * have a lease for it are known.
 *
 * <p>The thread that polls, the query's thread and the threads that answer tasks call this class.
 * Its monitor guards all its state. It sends no requests.
 */
public final class PartitionLeases {

  /** A slot's part in the running batch. */
  private static final class Use {
    final Map<TopicPartition, Long> terms;

    /** The attempts that have got a fence and may commit with it, each with its producer's id. */
    final Map<Long, String> leases = new HashMap<>();

    boolean ended;

    Use(Map<TopicPartition, Long> terms) {
      this.terms = terms;
    }

    boolean reads(Collection<TopicPartition> partitions) {
      return partitions.stream().anyMatch(terms::containsKey);
    }
  }

  private final Map<TopicPartition, Long> terms = new HashMap<>();
  private final Set<TopicPartition> leaving = new HashSet<>();
  private Map<Integer, Use> uses = Map.of();
  private Fence fence;
  private long term;
  private long ownershipLosses;
  private long plan;
  private boolean closing;
  private RuntimeException failure;

  // ---- what the group assigns, wants back and takes away

  /** The group coordinator checks this fence from now on; empty outside of a generation. */
  synchronized void setFence(Optional<Fence> now) {
    now.ifPresent(given -> fence = given);
  }

  /** The last fence that was set; null before the first join. */
  synchronized Fence fence() {
    return fence;
  }

  /**
   * The group has assigned these partitions, in the generation of this fence: each one begins a new
   * term. A thread that waits for the first fence sees both at once.
   *
   * @return false if the driver is leaving the group
   */
  synchronized boolean assign(Optional<Fence> now, Collection<TopicPartition> partitions) {
    setFence(now);
    partitions.forEach(partition -> terms.put(partition, ++term));
    notifyAll();
    return !closing;
  }

  /**
   * The group revokes these partitions. They are no longer planned, and are given up when no slot
   * that reads them is in use. Meanwhile they keep their terms, so that tasks still get a lease and
   * commit.
   *
   * @return whether they were given up. If not, the deadline has passed: they are still owned, and
   *     {@link #lose} is called next.
   */
  synchronized boolean giveUp(Collection<TopicPartition> partitions, long deadlineNanos) {
    leaving.addAll(partitions);
    while (isInUse(partitions) && System.nanoTime() < deadlineNanos) {
      await(deadlineNanos);
    }
    if (isInUse(partitions)) {
      return false;
    }
    remove(partitions);
    return true;
  }

  /**
   * These partitions belong to another driver now, whether or not they are in use.
   *
   * @return the transactional ids of attempts that have a lease for one of them, and may still
   *     commit
   */
  synchronized Set<String> lose(Collection<TopicPartition> partitions) {
    ownershipLosses++;
    Set<String> leased =
        uses.values().stream()
            .filter(use -> use.reads(partitions))
            .flatMap(use -> use.leases.values().stream())
            .collect(Collectors.toSet());
    remove(partitions);
    return leased;
  }

  private void remove(Collection<TopicPartition> partitions) {
    terms.keySet().removeAll(partitions);
    leaving.removeAll(partitions);
    notifyAll();
  }

  private boolean isInUse(Collection<TopicPartition> partitions) {
    return !closing && uses.values().stream().anyMatch(use -> !use.ended && use.reads(partitions));
  }

  /** Producers of this driver may hold offsets that it no longer owns. */
  synchronized void addOwnershipLoss() {
    ownershipLosses++;
  }

  /** Whether each of these partitions is in the term that it had before. */
  synchronized boolean areInTerms(
      Collection<TopicPartition> partitions, Map<TopicPartition, Long> before) {
    // Ownership alone is not enough: another driver may have owned it and moved its offset since.
    return partitions.stream()
        .allMatch(
            partition ->
                terms.containsKey(partition) && terms.get(partition).equals(before.get(partition)));
  }

  /** The membership has ended: nothing is owned any more. */
  synchronized void fail(RuntimeException e) {
    failure = e;
    terms.clear();
    notifyAll();
  }

  synchronized boolean isClosing() {
    return closing;
  }

  // ---- what is owned, and what the running batch uses of it

  /**
   * The owned partitions, without those that are to be given up; waits for the first fence.
   *
   * @param known all partitions of the source
   * @return empty if there is no fence at the deadline
   */
  synchronized Optional<Ownership> ownership(Set<TopicPartition> known, long deadlineNanos) {
    while (fence == null && failure == null) {
      if (System.nanoTime() > deadlineNanos) {
        return Optional.empty();
      }
      await(deadlineNanos);
    }
    requireOwnership();
    Map<TopicPartition, Long> owned = new HashMap<>(terms);
    owned.keySet().removeAll(leaving);
    owned.keySet().retainAll(known);
    return Optional.of(new Ownership(fence, owned, ownershipLosses));
  }

  /** Throws the exception with which the membership has failed, if it has. */
  synchronized void requireOwnership() {
    if (failure != null) {
      throw failure;
    }
  }

  /**
   * A batch is planned: until it has ended, its partitions are not given up. A repeated call with
   * the same plan changes nothing.
   *
   * @param slots by slot, its partitions with the terms in which their starts were found
   * @return the number of this plan, which its tasks send with their questions
   */
  synchronized long begin(Map<Integer, Map<TopicPartition, Long>> slots) {
    Map<Integer, Map<TopicPartition, Long>> now = new HashMap<>();
    uses.forEach((slot, use) -> now.put(slot, use.terms));
    if (!now.equals(slots)) {
      plan++;
      uses = new HashMap<>();
      slots.forEach((slot, partitions) -> uses.put(slot, new Use(partitions)));
      notifyAll();
    }
    return plan;
  }

  /**
   * The batch's tasks have ended: no attempt of this plan gets a lease any more. Its partitions
   * stay in use until {@link #release}.
   *
   * @return the transactional ids of the remaining leases, by slot
   */
  synchronized Map<Integer, Set<String>> end() {
    plan++;
    Map<Integer, Set<String>> left = new HashMap<>();
    uses.forEach(
        (slot, use) -> {
          if (!use.leases.isEmpty()) {
            left.put(slot, Set.copyOf(use.leases.values()));
          }
        });
    return left;
  }

  /** No attempt of the batch that has ended can commit any more. */
  synchronized void release() {
    uses = Map.of();
    notifyAll();
  }

  /** The driver leaves the group without waiting for tasks. */
  synchronized void close() {
    closing = true;
    uses = Map.of();
    notifyAll();
  }

  // ---- what tasks ask and report

  /**
   * Whether the driver has owned the partitions of these slots ever since they were planned, and no
   * attempt on them has ended yet: the driver has counted such an attempt's report.
   */
  public synchronized boolean isOwned(long ofPlan, Collection<Integer> slots) {
    return !hasMoved(ofPlan, slots) && slots.stream().noneMatch(slot -> uses.get(slot).ended);
  }

  /** Whether the driver has since lost a partition of these slots, or the batch is over. */
  public synchronized boolean hasMoved(long ofPlan, Collection<Integer> slots) {
    return closing
        || failure != null
        || ofPlan != plan
        || !slots.stream().map(uses::get).allMatch(this::isInItsTerms);
  }

  private boolean isInItsTerms(Use use) {
    return use != null && terms.entrySet().containsAll(use.terms.entrySet());
  }

  /**
   * The fence for a task that is about to commit, or empty if the driver has lost a partition of
   * its slots: then the task's transaction must be aborted.
   *
   * @param attempt of the task, by Spark's number
   * @param transactionalId of the producer that will commit with it
   */
  public synchronized Optional<Fence> lease(
      long ofPlan, Collection<Integer> slots, long attempt, String transactionalId) {
    if (!isOwned(ofPlan, slots)) {
      return Optional.empty();
    }
    slots.forEach(slot -> uses.get(slot).leases.put(attempt, transactionalId));
    return Optional.of(fence);
  }

  /** The transaction of a task's attempt has ended; another attempt's may still be open. */
  public synchronized void ended(long ofPlan, Collection<Integer> slots, long attempt) {
    if (ofPlan != plan) {
      return;
    }
    for (int slot : slots) {
      Use use = uses.get(slot);
      if (use != null) {
        use.leases.remove(attempt);
        use.ended = use.leases.isEmpty();
      }
    }
    notifyAll();
  }

  /** Waits for a change by another thread; the caller checks the deadline. */
  private void await(long deadlineNanos) {
    try {
      long ms = TimeUnit.NANOSECONDS.toMillis(deadlineNanos - System.nanoTime());
      wait(Math.max(1, Math.min(ms, 1_000)));
    } catch (InterruptedException e) {
      throw KafkaCalls.asJava(new InterruptException(e));
    }
  }
}
