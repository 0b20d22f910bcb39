"""What others could have written where eoskafka reads.

| file           | holds                                                                          |
|----------------|--------------------------------------------------------------------------------|
| `inputs.py`    | noise, and valid texts with faults in them; `foreign/ForeignInput.java` in Java |
| `readers.py`   | what has to hold for each reader, whatever its input                           |
| `given.py`     | the same for options, `client.properties`, arguments and headers               |
| `registered.py`| the same for schemas of a registry, pins of them, and tokens                    |
| `corpus.py`    | what the connector makes of its own inputs, asked of Python                    |
| `__main__.py`  | `make fuzz`: a hundred thousand inputs for each reader of Python               |
"""
