package io.eoskafka.query;

/** Marks the sink that commits source offsets with its output, so that the group is the truth. */
public interface TransactionalSink {}
