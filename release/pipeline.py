"""Topic to topic with nothing but Spark and `--packages`: fails unless the output is the input.

spark-submit --packages io.eoskafka:eoskafka:VERSION pipeline.py SERVERS FOLDER
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession

RECORDS = 1_000


def main() -> None:
    """Write a batch, copy it with a streaming query, and read the copy."""
    servers, folder = sys.argv[1:]
    spark = SparkSession.builder.appName("packages").getOrCreate()

    def read(topic: str, streaming: bool = False) -> DataFrame:
        reader = spark.readStream if streaming else spark.read
        source = reader.format("eoskafka").option("kafka.bootstrap.servers", servers)
        return source.option("subscribe", topic).option("startingOffsets", "earliest").load()

    def values(topic: str) -> list[str]:
        rows = read(topic).selectExpr("CAST(value AS STRING) AS value").collect()
        return sorted(row.value for row in rows)

    sink = {"kafka.bootstrap.servers": servers}
    numbers = spark.range(RECORDS).selectExpr("CAST(id AS STRING) AS value")
    numbers.write.format("eoskafka").options(**sink, topic="in").save()
    query = (
        read("in", streaming=True)
        .select("value")
        .writeStream.format("eoskafka")
        .options(**sink, topic="out", checkpointLocation=folder)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert values("in") == values("out") == sorted(map(str, range(RECORDS)))
    spark.stop()


if __name__ == "__main__":
    main()
