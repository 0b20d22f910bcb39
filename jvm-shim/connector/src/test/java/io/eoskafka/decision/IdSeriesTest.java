package io.eoskafka.decision;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.HashSet;
import java.util.List;
import java.util.Set;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;

/** The numbers in the transactional ids of three writers. */
class IdSeriesTest {
  private static final int WRITERS = 3;

  /**
   * @param steps of each, the writers that get a new number; all of them if it is empty
   */
  @Property(tries = 500)
  void aNewNumberIsOneThatNoWriterHasHad(
      @ForAll @Size(max = 8)
          List<@Size(max = WRITERS) Set<@IntRange(max = WRITERS - 1) Integer>> steps) {
    IdSeries series = IdSeries.FIRST;
    Set<Long> had = new HashSet<>(Set.of(series.of(0)));
    for (Set<Integer> chosen : steps) {
      IdSeries before = series;
      series = chosen.isEmpty() ? series.next() : series.next(chosen);
      for (int writer = 0; writer < WRITERS; writer++) {
        if (chosen.isEmpty() || chosen.contains(writer)) {
          assertThat(had).doesNotContain(series.of(writer));
        } else {
          assertThat(series.of(writer)).isEqualTo(before.of(writer));
        }
      }
      for (int writer = 0; writer < WRITERS; writer++) {
        had.add(series.of(writer));
      }
    }
  }
}
