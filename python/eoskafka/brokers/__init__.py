"""What brokers say, for the commands. Nothing here changes anything.

| file              | holds                                                              |
|-------------------|--------------------------------------------------------------------|
| `connection.py`   | where a cluster is, and what a failure means for a user            |
| `topics.py`       | topics and the ends of their logs, as one broker knows them        |
| `agreement.py`    | whether all brokers agree on the ids of topics, and on the leaders |
| `groups.py`       | a group's offsets and its members                                  |
| `transactions.py` | transactions that have not ended                                   |
"""
