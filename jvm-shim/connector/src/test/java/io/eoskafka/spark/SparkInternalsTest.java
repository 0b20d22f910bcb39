package io.eoskafka.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Spark moves and changes its internal classes from version to version. */
class SparkInternalsTest {
  private static final Pattern INTERNAL =
      Pattern.compile("org/apache/spark/sql/(execution|classic|internal|catalyst/plans)/.*");

  /** The connector's own classes, as they were compiled. */
  static List<ClassFile> classes() {
    try (Stream<Path> files = Files.walk(Path.of("target", "classes"))) {
      return files
          .filter(file -> file.toString().endsWith(".class"))
          .map(SparkInternalsTest::read)
          .toList();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static ClassFile read(Path file) {
    try {
      return ClassFile.of(Files.readAllBytes(file));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void onlyThePackageSparkUsesThem() {
    assertThat(classes())
        .hasSizeGreaterThan(100)
        .filteredOn(file -> !file.name().startsWith("io/eoskafka/spark/"))
        .allSatisfy(
            file ->
                assertThat(file.classes())
                    .as(file.name())
                    .noneMatch(name -> INTERNAL.matcher(name).matches()));
  }
}
