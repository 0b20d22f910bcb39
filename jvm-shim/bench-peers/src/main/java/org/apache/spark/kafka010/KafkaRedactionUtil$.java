package org.apache.spark.kafka010;

import scala.Tuple2;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;

/** A Scala object in the shape that its callers' bytecode expects: it shows no settings at all. */
public final class KafkaRedactionUtil$ {
  public static final KafkaRedactionUtil$ MODULE$ = new KafkaRedactionUtil$();

  private KafkaRedactionUtil$() {}

  @SuppressWarnings("unchecked") // the empty list is one of any type
  public Seq<Tuple2<String, String>> redactParams(Seq<Tuple2<String, Object>> settings) {
    return (Seq<Tuple2<String, String>>) (Seq<?>) Nil$.MODULE$;
  }
}
