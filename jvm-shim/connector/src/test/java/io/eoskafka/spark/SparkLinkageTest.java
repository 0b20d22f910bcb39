package io.eoskafka.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Every class of the jar against the jars of each Spark version: what it refers to is there, and no
 * abstract method is left without an implementation. {@code make linkage} lists the jars.
 */
@EnabledIf("hasLists")
class SparkLinkageTest {
  /** A file for each version, with the class path of its jars. */
  private static final Path LISTS = Path.of("..", "..", "build", "spark");

  private static final String SUFFIX = ".classpath";

  private URLClassLoader jars;

  static boolean hasLists() {
    return Files.isDirectory(LISTS);
  }

  static List<String> versions() throws IOException {
    try (Stream<Path> files = Files.list(LISTS)) {
      return files
          .map(file -> file.getFileName().toString())
          .filter(name -> name.endsWith(SUFFIX))
          .map(name -> name.substring(0, name.length() - SUFFIX.length()))
          .sorted()
          .toList();
    }
  }

  @AfterEach
  void close() throws IOException {
    jars.close();
  }

  @ParameterizedTest
  @MethodSource("versions")
  void everyClassIsLinked(String version) throws IOException {
    SparkVersion spark = SparkVersion.of(version);
    Set<String> without = Linkage.notLoadedIn(spark);
    Map<String, ClassFile> ours =
        SparkInternalsTest.classes().stream()
            .collect(Collectors.toMap(ClassFile::name, UnaryOperator.identity()));
    Linkage linkage = linkage(version, ours);

    List<ClassFile> loaded =
        ours.values().stream().filter(file -> !without.contains(file.name())).toList();
    assertThat(linkage.missing(loaded, name -> true)).isEmpty();
    assertThat(linkage.missingOfMoved(spark)).isEmpty();
    assertThat(linkage.missingOfNamed(spark)).isEmpty();
    // What a start looks at is not less than what there is.
    Set<String> checked = new TreeSet<>();
    linkage.loadedIn(spark).forEach(file -> checked.add(file.name()));
    assertThat(checked).containsAll(loaded.stream().map(ClassFile::name).toList());
  }

  @ParameterizedTest
  @MethodSource("versions")
  void theTablesOperatorsExist(String version) throws IOException {
    Function<String, Optional<ClassFile>> files = files(version, Map.of());
    assertThat(Operators.of(SparkVersion.of(version)).fit())
        .allSatisfy(name -> assertThat(files.apply(name.replace('.', '/'))).isPresent());
  }

  @ParameterizedTest
  @MethodSource("versions")
  void whatIsMissingIsNamed(String version) throws IOException {
    ClassFile made =
        new ClassFile(
            "io/eoskafka/Made",
            0,
            "org/apache/spark/sql/catalyst/InternalRow",
            List.of(),
            Map.of(),
            Set.of(),
            () ->
                new ClassFile.Uses(
                    Set.of("org/apache/spark/sql/Gone"),
                    Set.of(
                        new ClassFile.Reference(
                            "org/apache/spark/SparkContext", "gone", "()V", false))));
    assertThat(linkage(version, Map.of(made.name(), made)).missing(List.of(made), name -> true))
        .contains("org.apache.spark.sql.Gone", "org.apache.spark.SparkContext.gone()V")
        .anyMatch(
            missing ->
                missing.startsWith("io.eoskafka.Made implements")
                    && missing.endsWith("getInt(I)I"));
  }

  private Linkage linkage(String version, Map<String, ClassFile> ours) throws IOException {
    return new Linkage(files(version, ours));
  }

  private Function<String, Optional<ClassFile>> files(String version, Map<String, ClassFile> ours)
      throws IOException {
    String listed = Files.readString(LISTS.resolve(version + SUFFIX)).strip();
    URL[] urls =
        Stream.concat(Stream.of(listed.split(File.pathSeparator)), Stream.of(kafkaJar()))
            .map(SparkLinkageTest::url)
            .toArray(URL[]::new);
    jars = new URLClassLoader(urls, ClassLoader.getPlatformClassLoader());
    Map<String, Optional<ClassFile>> read = new HashMap<>();
    return name ->
        ours.containsKey(name)
            ? Optional.of(ours.get(name))
            : read.computeIfAbsent(name, SparkLinkageTest.this::read);
  }

  private Optional<ClassFile> read(String name) {
    try (var in = jars.getResourceAsStream(name + ".class")) {
      return in == null ? Optional.empty() : Optional.of(ClassFile.of(in.readAllBytes()));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The client, which the jar brings along under another name. */
  private static String kafkaJar() {
    return Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
        .filter(jar -> new File(jar).getName().startsWith("kafka-clients-"))
        .findFirst()
        .orElseThrow();
  }

  private static URL url(String jar) {
    try {
      return new File(jar).toURI().toURL();
    } catch (MalformedURLException e) {
      throw new IllegalArgumentException(e);
    }
  }
}
