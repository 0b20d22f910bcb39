package testing;

import scala.collection.immutable.$colon$colon;
import scala.collection.immutable.List;
import scala.collection.immutable.Nil$;

/** Sequences that Spark takes with Scala 2.12 and with 2.13. */
final class Sequences {
  private Sequences() {}

  @SafeVarargs
  @SuppressWarnings("unchecked")
  static <T> List<T> of(T... items) {
    List<T> made = (List<T>) (Object) Nil$.MODULE$;
    for (int i = items.length - 1; i >= 0; i--) {
      made = new $colon$colon<>(items[i], made);
    }
    return made;
  }
}
