"""Benchmarks: the connector against its peers, in one run on one broker.

They need `eoskafka[bench]`, and Maven for the peers' jars, which no wheel carries.

| file            | holds                                                              |
|-----------------|--------------------------------------------------------------------|
| `throughput.py` | interleaved rounds of topic to topic, and what each of them took   |
| `latency.py`    | from a record's way in to its way out, at a steady rate            |
| `interval.py`   | latency and throughput in real-time mode by its commit interval    |
| `scale.py`      | thousands of partitions, small batches, requests per transaction   |
| `epoch.py`      | batch times of plans that shuffle, and the commit of many writers  |
| `stage.py`      | the brokers and the session that peers share                       |
| `rounds.py`     | rounds of one run of each case, and their result                   |
| `peers.py`      | who takes part, with which settings, and their jars                |
| `programs.py`   | peers in JVMs of their own                                         |
| `usage.py`      | CPU time and memory of a peer's processes                          |
| `stream.py`     | records at an even pace, and when each of them comes out           |
| `load.py`       | filling the input topic                                            |
| `values.py`     | the records' values: every byte of one follows from its number     |
| `count.py`      | what came out, counted by a reader that is no part of any peer     |
| `summary.py`    | what all reports have in common: medians, spreads and ratios       |
| `report.py`, and for each other benchmark `..._report.py` | as tables and as JSON    |
| `plots.py`      | pictures of them                                                   |
| `errors.py`     | what ends a benchmark without a result                             |
"""
