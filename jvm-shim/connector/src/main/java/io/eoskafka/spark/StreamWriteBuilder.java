package io.eoskafka.spark;

import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;

/** A sink that supports every output mode of a streaming query. */
public interface StreamWriteBuilder extends SupportsTruncate, SupportsStreamingUpdateAsAppend {}
