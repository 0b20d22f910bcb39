package io.eoskafka.source;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.function.LongSupplier;
import org.apache.kafka.common.TopicPartition;

/**
 * Where partitions continue whose topic was created again, or whose log was cut, if the sink is not
 * ours. Such a sink goes by Spark's log, and that has the former end. So the first batch that is
 * planned afterwards begins here instead. The checkpoint has these starts until that batch is done.
 */
final class RestartedPartitions {

  /**
   * A start, or an end.
   *
   * @param topicId of the topic that it is in
   * @param offset the first one to be read, or not to be read
   * @param batch the last batch that Spark had planned when it was found, or -1
   */
  record Restart(String topicId, long offset, long batch) {}

  private final CheckpointFiles files;
  private final LongSupplier lastPlanned;
  private final LongSupplier lastDone;

  /** Starts of the first batch after that batch, which itself reads nothing of the partition. */
  private final Map<TopicPartition, Restart> starts;

  /** Ends of that batch itself: what was cut off it is for the next one. */
  private final Map<TopicPartition, Restart> ends;

  /**
   * @param lastPlanned the last batch that Spark has planned, or -1
   * @param lastDone the last batch that Spark does not run again, or -1
   */
  RestartedPartitions(CheckpointFiles files, LongSupplier lastPlanned, LongSupplier lastDone) {
    this.files = files;
    this.lastPlanned = lastPlanned;
    this.lastDone = lastDone;
    starts = new HashMap<>(files.readRestarted());
    ends = new HashMap<>(files.readCut());
    if (!starts.isEmpty() || !ends.isEmpty()) {
      forgetPlansAfter(lastPlanned.getAsLong());
    }
    forgetLogged();
  }

  /** Spark forgets a plan in real-time mode, and then another batch has its number. */
  private void forgetPlansAfter(long planned) {
    if (starts.values().stream().anyMatch(start -> start.batch() > planned)) {
      starts.replaceAll(
          (p, s) -> new Restart(s.topicId(), s.offset(), Math.min(s.batch(), planned)));
      files.writeRestarted(starts);
    }
    if (ends.values().removeIf(end -> end.batch() > planned)) {
      files.writeCut(ends);
    }
  }

  boolean isEmpty() {
    return starts.isEmpty();
  }

  /** The start that a former look has found in a topic, or null. */
  Long start(TopicPartition partition, String topicId) {
    Restart found = starts.get(partition);
    return found == null || !found.topicId().equals(topicId) ? null : found.offset();
  }

  /** Where a batch begins that Spark's log has from an offset on. */
  long begin(TopicPartition partition, long logged) {
    Restart found = starts.get(partition);
    return found == null ? logged : found.offset();
  }

  /** Where the last batch ends that Spark's log has to another offset. */
  long end(TopicPartition partition, long logged) {
    Restart found = ends.get(partition);
    return found == null ? logged : Math.min(found.offset(), logged);
  }

  /** Partitions of which the last batch reads nothing, since it was planned before. */
  Set<TopicPartition> notInLastPlanned() {
    if (starts.isEmpty()) {
      return Set.of();
    }
    long planned = lastPlanned.getAsLong();
    Set<TopicPartition> found = new HashSet<>(starts.keySet());
    found.removeIf(partition -> starts.get(partition).batch() < planned);
    return found;
  }

  /** Keeps starts, before anything else says that their topics are known. */
  void add(Map<TopicPartition, Long> found, Function<TopicPartition, String> topicIds) {
    if (!found.isEmpty()) {
      starts.putAll(restarts(found, topicIds));
      files.writeRestarted(starts);
    }
  }

  /** Keeps where logs end within the last batch, which is planned now. */
  void cut(Map<TopicPartition, Long> found, Function<TopicPartition, String> topicIds) {
    if (!found.isEmpty()) {
      ends.putAll(restarts(found, topicIds));
      files.writeCut(ends);
    }
  }

  private Map<TopicPartition, Restart> restarts(
      Map<TopicPartition, Long> offsets, Function<TopicPartition, String> topicIds) {
    long planned = lastPlanned.getAsLong();
    Map<TopicPartition, Restart> restarts = new HashMap<>();
    offsets.forEach(
        (p, offset) -> restarts.put(p, new Restart(topicIds.apply(p), offset, planned)));
    return restarts;
  }

  /** Between two batches: forgets starts that are in Spark's log by now. */
  void forgetLogged() {
    if (starts.isEmpty() && ends.isEmpty()) {
      return;
    }
    long done = lastDone.getAsLong();
    Map<TopicPartition, Restart> ended = new HashMap<>(ends);
    // After an older one, another connector has run batches, whose ends the log has.
    ended.values().removeIf(end -> end.batch() != done);
    if (starts.values().removeIf(start -> start.batch() < done) || !ended.isEmpty()) {
      // One that was found since is that of a newer topic, or of a shorter log.
      ended.forEach(starts::putIfAbsent);
      files.writeRestarted(starts);
    }
    if (ends.values().removeIf(end -> end.batch() <= done)) {
      files.writeCut(ends);
    }
  }

  /** Our sink has begun, and the group says where partitions continue. */
  void forgetAll() {
    if (!starts.isEmpty() || !ends.isEmpty()) {
      starts.clear();
      ends.clear();
      files.writeRestarted(starts);
      files.writeCut(ends);
    }
  }
}
