/**
 * Stands in for Spark's module {@code spark-token-provider-kafka-0-10}, which does not resolve
 * everywhere, so that Spark's built-in {@code kafka} format can run as a benchmark peer. It has
 * just what that format calls, for clusters without authentication: there are no delegation tokens,
 * and client settings pass through as they are. None of it runs per record.
 */
package org.apache.spark.kafka010;
