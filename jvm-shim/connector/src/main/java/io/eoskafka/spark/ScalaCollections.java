package io.eoskafka.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import scala.Tuple2;
import scala.collection.Iterable;
import scala.collection.Iterator;
import scala.collection.immutable.$colon$colon;
import scala.collection.immutable.Nil$;

/** Works with the collections of Scala 2.12, which Spark 3.5 may have, and of Scala 2.13. */
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
}
