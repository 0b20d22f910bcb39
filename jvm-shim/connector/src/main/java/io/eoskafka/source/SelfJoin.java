package io.eoskafka.source;

import io.eoskafka.config.SourceOptions;
import java.util.List;

/**
 * A source that is joined with itself. Spark makes several sources of it, each with offsets of its
 * own; the second one's group ends in {@code -1}.
 */
final class SelfJoin {
  private SelfJoin() {}

  /**
   * The group of one of a query's sources.
   *
   * @param all the options of the query's sources, in their order
   * @param position of the source among them
   * @param own its options, with a group
   */
  static String group(List<SourceOptions> all, int position, SourceOptions own) {
    boolean isTwice =
        all.stream()
            .anyMatch(
                source ->
                    source.groupId() != null
                        && source.groupId().equals(own.groupId())
                        && !source.equals(own));
    if (own.isShared() && isTwice) {
      // In a group for itself the second source finds the first one's member.
      throw SharedGroupRules.refused(
          "two of its sources are in one group; each needs a kafka.group.id");
    }
    long before = all.stream().limit(position).filter(own::equals).count();
    return before == 0 ? own.groupId() : own.groupId() + "-" + before;
  }
}
