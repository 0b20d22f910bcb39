"""Faults in a running job, and the judgement on what its readers saw.

| file          | holds                                                                        |
|---------------|------------------------------------------------------------------------------|
| `history.py`  | `History`: what went in and what readers saw; `check`: anomalies by name       |
| `reader.py`   | `Reader`: a `read_committed` consumer that notes what it sees while faults go on |
| `proxy.py`    | `Proxy`: TCP in front of a broker; delays, cuts, drops replies by request type   |
| `cluster.py`  | `FaultyCluster`: three brokers behind proxies, and who coordinates what          |
"""
