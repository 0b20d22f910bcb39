package io.eoskafka.group;

import static org.assertj.core.api.Assertions.assertThat;

import io.eoskafka.group.GroupInspector.Release;
import java.util.List;
import org.junit.jupiter.api.Test;

class ReleaseTest {
  private static final Release FIRST = new Release(0, false);
  private static final Release SECOND = new Release(1_000, true);

  @Test
  void aDriverBelongsToTheNewestReleaseThatIsThere() {
    assertThat(Release.after(List.of(), false, 5_000)).isEqualTo(FIRST);
    assertThat(Release.after(List.of(FIRST, SECOND), false, 5_000))
        .isEqualTo(new Release(1_000, false));
  }

  @Test
  void oneThatTakesOverIsNewerThanAllOthers() {
    assertThat(Release.after(List.of(FIRST, SECOND), true, 5_000))
        .isEqualTo(new Release(5_000, true));
  }

  @Test
  void aClockThatIsBehindDoesNotMakeItAnOlderOne() {
    assertThat(Release.after(List.of(FIRST, SECOND), true, 900))
        .isEqualTo(new Release(1_001, true));
  }
}
