package io.eoskafka.task;

import java.io.Serializable;
import java.util.List;

/**
 * One slot's share of a batch: whole topic-partitions.
 *
 * @param owner the JVM whose idle producer may continue without a new stable fetch, or null
 */
public record SlotWork(int slot, List<SlotRange> ranges, String owner) implements Serializable {}
