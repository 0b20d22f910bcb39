package io.eoskafka.spark;

/** Marks the sink that commits source offsets with its output, so that the group is the truth. */
public interface TransactionalSink {}
