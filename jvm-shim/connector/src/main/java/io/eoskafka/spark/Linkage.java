package io.eoskafka.spark;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.invoke.MethodType;
import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Predicate;

/**
 * What classes of the connector need from a Spark version and do not find there. Everything is read
 * from class files; no class is loaded.
 */
final class Linkage {
  private static final String OURS = "io/eoskafka/";
  private static final String KAFKA = OURS + "shaded/";
  private static final String OBJECT = "java/lang/Object";

  /** The classes by which Spark, and a command, enter the connector. */
  private static final List<String> ENTRIES =
      List.of(OURS + "EosKafkaProvider", OURS + "EosKafkaPlugin", OURS + "decision/ResolveJob");

  private final Function<String, Optional<ClassFile>> files;
  private final Map<String, Optional<ClassFile>> read = new HashMap<>();
  private final Map<String, Collection<ClassFile>> families = new HashMap<>();

  /**
   * @param files a class by its name with slashes, or empty
   */
  Linkage(Function<String, Optional<ClassFile>> files) {
    this.files = files;
  }

  /** The classes that a class loader finds. */
  static Linkage of(ClassLoader loader) {
    return new Linkage(
        name -> {
          try (InputStream in = loader.getResourceAsStream(name + ".class")) {
            return in == null ? Optional.empty() : Optional.of(ClassFile.of(in.readAllBytes()));
          } catch (IOException e) {
            throw new UncheckedIOException(e);
          }
        });
  }

  /** The classes that a version of Spark never makes the connector load. */
  static Set<String> notLoadedIn(SparkVersion version) {
    Set<String> names = new HashSet<>();
    if (!version.isAtLeast(4, 1)) {
      names.add(OURS + "source/RealTimeMicroBatchStream");
      names.add(OURS + "source/RealTimeSlotReader");
      names.add(OURS + "spark/RealTimePlans");
      names.add(OURS + "source/CheckpointV1Stream");
    }
    if (!version.isAtLeast(4, 2)) {
      names.add(OURS + "source/BinaryViewRow");
    }
    return names;
  }

  /**
   * The connector's classes that a version may load: those that can be reached from its entries.
   */
  Collection<ClassFile> loadedIn(SparkVersion version) {
    Set<String> without = notLoadedIn(version);
    Map<String, ClassFile> loaded = new LinkedHashMap<>();
    Deque<String> next = new ArrayDeque<>(ENTRIES);
    while (!next.isEmpty()) {
      String name = next.pop();
      if (loaded.containsKey(name) || without.contains(name)) {
        continue;
      }
      file(name)
          .ifPresent(
              found -> {
                loaded.put(name, found);
                found.classes().stream()
                    .filter(each -> each.startsWith(OURS) && !each.startsWith(KAFKA))
                    .forEach(next::add);
              });
    }
    return loaded.values();
  }

  /**
   * The names of what these classes need and cannot find.
   *
   * @param isLooked whether a class that they refer to, by its name with slashes, is checked
   */
  Set<String> missing(Collection<ClassFile> classes, Predicate<String> isLooked) {
    Set<String> missing = new LinkedHashSet<>();
    for (ClassFile each : classes) {
      for (String name : each.classes()) {
        if (isLooked.test(name) && file(name).isEmpty()) {
          missing.add(dotted(name));
        }
      }
      for (ClassFile.Reference reference : each.references()) {
        String owner = reference.owner();
        if (isLooked.test(owner) && file(owner).isPresent() && !resolves(reference)) {
          missing.add(reference.toString());
        }
      }
      if (!each.isAbstract() && !each.isInterface()) {
        missing.addAll(notImplemented(each));
      }
    }
    return missing;
  }

  /** What is missing of the classes that are found by name. */
  Set<String> missingOfMoved(SparkVersion version) {
    Set<String> missing = new LinkedHashSet<>();
    for (MovedClass<?> moved : MovedClass.in(version)) {
      String name = moved.nameIn(version).replace('.', '/');
      if (file(name).isEmpty()) {
        missing.add(moved.nameIn(version));
        continue;
      }
      for (MovedClass.Needed method : moved.needed()) {
        if (!has(name, method)) {
          missing.add(moved.nameIn(version) + "." + method.name());
        }
      }
    }
    return missing;
  }

  /** The missing methods among those that are called by name. */
  Set<String> missingOfNamed(SparkVersion version) {
    Set<String> missing = new LinkedHashSet<>();
    for (NamedMethod named : NamedMethod.values()) {
      String owner = named.ownerIn(version);
      boolean isThere =
          family(owner.replace('.', '/')).stream()
              .flatMap(each -> each.methods().entrySet().stream())
              .filter(each -> (each.getValue() & ClassFile.PUBLIC) != 0)
              .anyMatch(each -> each.getKey().startsWith(named.method() + "("));
      if (!isThere) {
        missing.add(owner + "." + named.method());
      }
    }
    return missing;
  }

  private boolean has(String owner, MovedClass.Needed method) {
    String parameters =
        MethodType.methodType(void.class, method.parameters()).toMethodDescriptorString();
    String prefix = method.name() + parameters.substring(0, parameters.length() - 1);
    for (ClassFile each : family(owner)) {
      for (Map.Entry<String, Integer> found : each.methods().entrySet()) {
        boolean isStatic = (found.getValue() & ClassFile.STATIC) != 0;
        if (found.getKey().startsWith(prefix)
            && isStatic == method.isStatic()
            && (found.getValue() & ClassFile.PUBLIC) != 0
            && returns(found.getKey().substring(prefix.length()), method.result())) {
          return true;
        }
      }
    }
    return false;
  }

  private boolean returns(String descriptor, Class<?> wanted) {
    if (descriptor.equals(wanted.descriptorString())) {
      return true;
    }
    if (wanted.isPrimitive() || !descriptor.startsWith("L")) {
      return false;
    }
    String name = wanted.getName().replace('.', '/');
    return wanted == Object.class
        || family(descriptor.substring(1, descriptor.length() - 1)).stream()
            .anyMatch(each -> each.name().equals(name));
  }

  private boolean resolves(ClassFile.Reference reference) {
    return family(reference.owner()).stream()
        .anyMatch(
            each ->
                reference.isField()
                    ? each.fields().contains(reference.member())
                    : each.methods().containsKey(reference.member()));
  }

  /** The abstract methods that a class inherits and that are not implemented. */
  private Set<String> notImplemented(ClassFile type) {
    Set<String> missing = new LinkedHashSet<>();
    List<ClassFile> family = List.copyOf(family(type.name()));
    for (ClassFile each : family) {
      each.methods()
          .forEach(
              (member, access) -> {
                if ((access & ClassFile.ABSTRACT) != 0 && !isImplemented(type, family, member)) {
                  missing.add(
                      dotted(type.name()) + " implements " + dotted(each.name()) + "." + member);
                }
              });
    }
    return missing;
  }

  /** A method of a superclass, abstract or not, takes precedence over those of interfaces. */
  private boolean isImplemented(ClassFile type, List<ClassFile> family, String member) {
    Optional<ClassFile> next = Optional.of(type);
    while (next.isPresent()) {
      Integer access = next.get().methods().get(member);
      if (access != null) {
        return (access & ClassFile.ABSTRACT) == 0;
      }
      next = Optional.ofNullable(next.get().superName()).flatMap(this::file);
    }
    return family.stream()
        .filter(ClassFile::isInterface)
        .map(each -> each.methods().get(member))
        .anyMatch(access -> access != null && (access & ClassFile.ABSTRACT) == 0);
  }

  /** A class with all its superclasses and interfaces, as far as they are found. */
  private Collection<ClassFile> family(String name) {
    Collection<ClassFile> known = families.get(name);
    if (known == null) {
      known = findFamily(name);
      families.put(name, known);
    }
    return known;
  }

  private Collection<ClassFile> findFamily(String name) {
    Map<String, ClassFile> family = new LinkedHashMap<>();
    // An interface has Object's methods too.
    Deque<String> next = new ArrayDeque<>(List.of(name, OBJECT));
    while (!next.isEmpty()) {
      String each = next.pop();
      if (!family.containsKey(each)) {
        file(each)
            .ifPresent(
                found -> {
                  family.put(each, found);
                  found.parents().forEach(next::add);
                });
      }
    }
    return family.values();
  }

  private Optional<ClassFile> file(String name) {
    Optional<ClassFile> known = read.get(name);
    if (known == null) {
      known = files.apply(name);
      read.put(name, known);
    }
    return known;
  }

  private static String dotted(String name) {
    return name.replace('/', '.');
  }
}
