"""What `Stranger.java` does, with kafka-python."""

from __future__ import annotations

import sys
import time

from kafka import KafkaConsumer
from kafka.errors import KafkaError

servers, topic, group, *_ = sys.argv[1:]
read, given = 0, -1
while True:
    consumer = KafkaConsumer(
        topic, bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest"
    )
    try:
        while True:
            records = consumer.poll(200)
            if len(consumer.assignment()) != given:
                given = len(consumer.assignment())
                print("partitions", given, flush=True)
            if records:
                read += sum(map(len, records.values()))
                print("records", read, flush=True)
    except KafkaError as error:
        print("refused", type(error).__name__, flush=True)
        time.sleep(0.1)
    finally:
        consumer.close()
