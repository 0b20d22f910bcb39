package io.eoskafka;

import static com.tngtech.archunit.base.DescribedPredicate.not;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.INTERFACES;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.assignableTo;
import static com.tngtech.archunit.core.domain.JavaClass.Predicates.resideInAPackage;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;
import static com.tngtech.archunit.library.dependencies.SlicesRuleDefinition.slices;
import static org.assertj.core.api.Assertions.assertThat;

import com.tngtech.archunit.core.domain.JavaClass;
import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.junit.jupiter.api.Test;

/** What DESIGN.md says of packages. */
class PackagesTest {
  private static final String ROOT = "io.eoskafka";

  /** By package: those of ours that it may use. A new entry here is a decision about the design. */
  private static final Map<String, Set<String>> MAY_USE =
      Map.ofEntries(
          Map.entry("config", Set.of()),
          Map.entry("faults", Set.of()),
          Map.entry("identity", Set.of()),
          Map.entry("wire", Set.of("config")),
          Map.entry("spark", Set.of("config")),
          Map.entry("group", Set.of("config", "faults", "identity", "wire")),
          Map.entry("transaction", Set.of("config", "group", "identity", "wire")),
          Map.entry("task", Set.of("config", "faults", "group", "identity", "transaction", "wire")),
          Map.entry(
              "decision", Set.of("config", "faults", "identity", "spark", "transaction", "wire")),
          Map.entry(
              "source",
              Set.of(
                  "config",
                  "decision",
                  "faults",
                  "group",
                  "identity",
                  "spark",
                  "task",
                  "transaction",
                  "wire")),
          Map.entry(
              "sink", Set.of("config", "decision", "source", "spark", "task", "transaction")));

  /** From their folder: Spark's many jars need not be searched for our packages. */
  private static final JavaClasses CLASSES =
      new ClassFileImporter()
          .importUrl(EosKafkaProvider.class.getProtectionDomain().getCodeSource().getLocation());

  @Test
  void packagesHaveNoCycles() {
    slices().matching(ROOT + ".(*)..").should().beFreeOfCycles().check(CLASSES);
  }

  @Test
  void eachPackageUsesThoseThatItMayUseAndNoOther() {
    Map<String, Set<String>> used = new TreeMap<>();
    for (JavaClass each : CLASSES) {
      if (!each.getPackageName().equals(ROOT)) {
        used.computeIfAbsent(packageOf(each), name -> new TreeSet<>())
            .addAll(
                each.getDirectDependenciesFromSelf().stream()
                    .map(dependency -> dependency.getTargetClass())
                    .filter(target -> target.getPackageName().startsWith(ROOT))
                    .map(PackagesTest::packageOf)
                    .filter(name -> !name.equals(packageOf(each)))
                    .collect(Collectors.toSet()));
      }
    }
    assertThat(used).isEqualTo(new TreeMap<>(MAY_USE));
  }

  /** These change with every minor version of Spark. */
  @Test
  void internalClassesOfSparkAreUsedInOnePackage() {
    for (String internal :
        List.of(
            "org.apache.spark.sql.execution..",
            "org.apache.spark.sql.classic..",
            "org.apache.spark.sql.internal..")) {
      noClasses()
          .that()
          .resideOutsideOfPackage(ROOT + ".spark..")
          .should()
          .dependOnClassesThat(resideInAPackage(internal))
          .check(CLASSES);
    }
  }

  @Test
  void theSinkKnowsASourceByItsInterface() {
    noClasses()
        .that()
        .resideInAPackage(ROOT + ".sink..")
        .should()
        .dependOnClassesThat(
            not(INTERFACES)
                .and(assignableTo(MicroBatchStream.class))
                .as("classes of streaming sources"))
        .check(CLASSES);
  }

  @Test
  void aGroupsMembersKnowNothingOfProducers() {
    noClasses()
        .that()
        .resideInAPackage(ROOT + ".group..")
        .should()
        .dependOnClassesThat(resideInAPackage("org.apache.kafka.clients.producer.."))
        .check(CLASSES);
  }

  private static String packageOf(JavaClass of) {
    String rest = of.getPackageName().substring(ROOT.length());
    return rest.isEmpty() ? "" : rest.substring(1);
  }
}
