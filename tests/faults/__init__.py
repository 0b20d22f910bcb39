"""Faults in a running job, and the judgement on what its readers saw.

| file          | holds                                                                           |
|---------------|---------------------------------------------------------------------------------|
| `campaign.py` | `Campaign`: a query, and faults in it one after the other                       |
| `chaos.py`    | `make chaos`: many campaigns, resumable, and the report on them                 |
| `cluster.py`  | `FaultyCluster`: three brokers behind proxies, and who coordinates what         |
| `proxy.py`    | `Proxy`: TCP in front of a broker; delays, cuts, drops replies by request type  |
| `split.py`    | `SplitCluster`: brokers in network namespaces, which can be cut off             |
| `hosts.py`    | `OtherHost`: a host for executors, which can be cut off from the driver         |
| `feeder.py`   | `Feeder`: keeps adding records to the input                                     |
| `reader.py`   | `Reader`: a `read_committed` consumer that notes what it sees while faults go on |
| `history.py`  | `History`: what went in and what readers saw; `check`: anomalies by name        |

The job's processes and the connector's fault points are those of `tests/integration/harness`.
"""
