package io.eoskafka.group;

import io.eoskafka.identity.Fence;
import io.eoskafka.wire.Daemon;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What a driver of a shared group does after a rebalance, on a thread of its own. Otherwise it
 * would only be done before this driver's next batch.
 */
final class AfterRebalance {
  private static final Logger LOG = LoggerFactory.getLogger(AfterRebalance.class);

  /**
   * A restarted driver looks for partitions without an owner after 3 s, and again after 6 s more.
   */
  private static final long[] UNOWNED_SECONDS = {3, 6};

  private final String group;
  private final GroupInspector members;
  private final Runnable endGone;
  private final Supplier<Set<TopicPartition>> present;
  private final Supplier<Fence> fence;
  private final Consumer<String> rebalance;
  private final ScheduledExecutorService thread;

  /**
   * @param endGone ends the transactions that departed drivers have left open
   * @param present all partitions of the source
   * @param fence the current fence
   * @param rebalance asks the group for a rebalance, with this reason
   */
  AfterRebalance(
      String group,
      GroupInspector members,
      Runnable endGone,
      Supplier<Set<TopicPartition>> present,
      Supplier<Fence> fence,
      Consumer<String> rebalance) {
    this.group = group;
    this.members = members;
    this.endGone = endGone;
    this.present = present;
    this.fence = fence;
    this.rebalance = rebalance;
    thread =
        Executors.newSingleThreadScheduledExecutor(
            Daemon.factory("eoskafka-after-rebalance-" + group));
  }

  /**
   * Otherwise a former owner's open transactions would block readers of the output until this
   * driver's next batch.
   */
  synchronized void abortDepartedDrivers() {
    if (!thread.isShutdown()) {
      thread.execute(this::endGone);
    }
  }

  private void endGone() {
    try {
      members.warnOfStrangers();
      endGone.run();
    } catch (RuntimeException e) {
      LOG.warn(
          "Open transactions of departed drivers of group {} were not ended; the next batch or"
              + " rebalance tries again",
          group,
          e);
    }
  }

  /**
   * The broker gives a static member that comes back the assignment of its former run. If that run
   * was still giving up a partition, the partition has no owner then, and no rebalance is in
   * progress that would assign it.
   */
  void lookForUnowned() {
    lookForUnowned(0);
  }

  /**
   * @param look which of {@link #UNOWNED_SECONDS} comes next
   */
  private synchronized void lookForUnowned(int look) {
    if (!thread.isShutdown()) {
      thread.schedule(() -> findUnowned(look), UNOWNED_SECONDS[look], TimeUnit.SECONDS);
    }
  }

  private void findUnowned(int look) {
    Set<TopicPartition> all = present.get();
    Fence now = fence.get();
    try {
      if (!members.isStableWithUnowned(all)) {
        return;
      }
    } catch (RuntimeException e) {
      LOG.warn("Whether partitions of group {} have no owner is unknown", group, e);
      return;
    }
    if (look + 1 < UNOWNED_SECONDS.length) {
      lookForUnowned(look + 1);
    } else {
      LOG.info(
          "Partitions of group {} have no owner in generation {}: this driver asks for a rebalance",
          group,
          now.generation());
      rebalance.accept("a partition has no owner");
    }
  }

  /** Starts nothing more, and interrupts what is in progress. */
  synchronized void close() {
    thread.shutdownNow();
  }
}
