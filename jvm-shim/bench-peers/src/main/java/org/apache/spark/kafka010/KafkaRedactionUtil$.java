package org.apache.spark.kafka010;

import scala.Tuple2;
import scala.collection.immutable.List;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** A Scala object in the shape that its callers' bytecode expects: it shows no settings at all. */
public final class KafkaRedactionUtil$ {
  public static final KafkaRedactionUtil$ MODULE$ = new KafkaRedactionUtil$();

  private KafkaRedactionUtil$() {}

  /** For callers of Scala 2.12. */
  public scala.collection.Seq<Tuple2<String, String>> redactParams(
      scala.collection.Seq<Tuple2<String, Object>> settings) {
    return none();
  }

  /** For callers of Scala 2.13. */
  public Seq<Tuple2<String, String>> redactParams(Seq<Tuple2<String, Object>> settings) {
    return none();
  }

  @SuppressWarnings("unchecked") // the empty list is one of any type
  private static List<Tuple2<String, String>> none() {
    return (List<Tuple2<String, String>>) (List<?>) Nil$.MODULE$;
  }
}
