package io.eoskafka.source;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.eoskafka.config.SourceOptions;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Which group each source of a query joins. */
class SelfJoinTest {
  private static final SourceOptions ORDERS = options("orders", "g", false);
  private static final SourceOptions PAYMENTS = options("payments", "g", false);
  private static final SourceOptions OTHERS = options("others", "h", false);

  private static SourceOptions options(String topic, String group, boolean isShared) {
    Map<String, String> given =
        new HashMap<>(
            Map.of(
                "kafka.bootstrap.servers", "broker:9092",
                "subscribe", topic,
                "kafka.group.id", group));
    if (isShared) {
      given.put("ownership", "shared");
    }
    return SourceOptions.parse(new CaseInsensitiveStringMap(given));
  }

  @ParameterizedTest
  @CsvSource({"0,g", "1,h", "2,g-1", "3,g-2"})
  void eachOccurrenceOfASourceHasAGroupOfItsOwn(int position, String group) {
    List<SourceOptions> all =
        List.of(ORDERS, OTHERS, options("orders", "g", false), options("orders", "g", false));
    assertThat(SelfJoin.group(all, position, all.get(position))).isEqualTo(group);
  }

  @Test
  void anotherSourceOfTheGroupIsNoOccurrence() {
    assertThat(SelfJoin.group(List.of(ORDERS, PAYMENTS), 1, PAYMENTS)).isEqualTo("g");
  }

  @Test
  void aSharedGroupHasOneSourceOfAQuery() {
    SourceOptions first = options("orders", "g", true);
    SourceOptions second = options("payments", "g", true);
    assertThatThrownBy(() -> SelfJoin.group(List.of(first, second), 0, first))
        .hasMessageContaining("two of its sources are in one group");
    assertThat(SelfJoin.group(List.of(first, OTHERS), 0, first)).isEqualTo("g");
  }
}
