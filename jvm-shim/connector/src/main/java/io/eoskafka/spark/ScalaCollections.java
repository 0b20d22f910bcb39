package io.eoskafka.spark;

import java.lang.reflect.InvocationTargetException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import scala.Tuple2;
import scala.collection.Iterable;
import scala.collection.Iterator;
import scala.collection.immutable.$colon$colon;
import scala.collection.immutable.Nil$;

/**
 * Collections of Scala 2.12, which Spark 3.5 may have, and of 2.13. Their methods have other types
 * there: a method of Spark that returns a sequence is called by its name.
 */
public final class ScalaCollections {
  private ScalaCollections() {}

  /** A copy. */
  public static <T> List<T> list(Iterable<T> values) {
    List<T> found = new ArrayList<>();
    Iterator<T> next = values.iterator();
    while (next.hasNext()) {
      found.add(next.next());
    }
    return found;
  }

  /** A copy. */
  public static <K, V> Map<K, V> map(scala.collection.immutable.Map<K, V> values) {
    Map<K, V> found = new HashMap<>();
    Iterator<Tuple2<K, V>> next = values.iterator();
    while (next.hasNext()) {
      Tuple2<K, V> entry = next.next();
      found.put(entry._1(), entry._2());
    }
    return found;
  }

  /** A sequence of either version. */
  static <T> scala.collection.immutable.List<T> sequence(List<T> values) {
    @SuppressWarnings("unchecked")
    scala.collection.immutable.List<T> made =
        (scala.collection.immutable.List<T>) (Object) Nil$.MODULE$;
    for (int i = values.size() - 1; i >= 0; i--) {
      made = new $colon$colon<>(values.get(i), made);
    }
    return made;
  }

  /**
   * What a method of Spark without parameters returns as a sequence.
   *
   * @param type of its elements
   */
  static <T> List<T> list(Object owner, String method, Class<T> type) {
    try {
      List<T> found = new ArrayList<>();
      for (Object value : list((Iterable<?>) owner.getClass().getMethod(method).invoke(owner))) {
        found.add(type.cast(value));
      }
      return found;
    } catch (InvocationTargetException e) {
      throw unchecked(e.getCause());
    } catch (ReflectiveOperationException e) {
      throw new LinkageError(owner.getClass().getName() + "." + method, e);
    }
  }

  private static RuntimeException unchecked(Throwable error) {
    if (error instanceof RuntimeException unchecked) {
      return unchecked;
    }
    if (error instanceof Error serious) {
      throw serious;
    }
    return new IllegalStateException(error);
  }
}
