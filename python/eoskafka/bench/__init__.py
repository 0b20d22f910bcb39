"""Benchmarks: the connector against its peers, in one run on one broker.

They need `eoskafka[local,verify]`, and Maven for the peers' jars, which no wheel carries.

| file            | holds                                                              |
|-----------------|--------------------------------------------------------------------|
| `throughput.py` | interleaved rounds of topic to topic, and what each of them took   |
| `epoch.py`      | batch times of plans that shuffle, and the commit of many writers  |
| `stage.py`      | the broker and the session that peers share                        |
| `peers.py`      | who takes part, and the jars of those that are not the connector   |
| `load.py`       | filling the input topic                                            |
| `values.py`     | the records' values: every byte of one follows from its number     |
| `count.py`      | what came out, counted by a reader that is no part of any peer     |
| `report.py`     | medians, spreads and ratios, as a table and as JSON                |
| `epoch_report.py` | the same, of epochs                                              |
| `errors.py`     | what ends a benchmark without a result                             |
"""
