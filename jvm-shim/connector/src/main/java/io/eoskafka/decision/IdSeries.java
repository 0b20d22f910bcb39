package io.eoskafka.decision;

import java.io.Serializable;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/**
 * A number in the transactional ids of a run's writers. An attempt that initialises its id late
 * ends the transaction that uses the id by then. So if an attempt that has not reported may still
 * be running, its writer gets a number that no id of the run has had.
 *
 * @param common of all writers but the others
 * @param others by writer
 */
record IdSeries(long common, Map<Integer, Long> others) implements Serializable {
  static final IdSeries FIRST = new IdSeries(0, Map.of());

  long of(int writer) {
    return others.getOrDefault(writer, common);
  }

  /** With a new number for all writers. */
  IdSeries next() {
    return new IdSeries(unused(), Map.of());
  }

  /** With a new number for some of them. */
  IdSeries next(Set<Integer> writers) {
    Map<Integer, Long> changed = new HashMap<>(others);
    writers.forEach(writer -> changed.put(writer, unused()));
    return new IdSeries(common, Map.copyOf(changed));
  }

  private long unused() {
    return 1 + (others.isEmpty() ? common : Math.max(common, Collections.max(others.values())));
  }
}
