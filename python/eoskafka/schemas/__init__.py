"""Values in the wire format of Confluent's Avro serializers.

Such a value begins with the byte 0 and the id of its schema in four bytes; a schema registry has
the schema. The driver asks the registry before a plan is made, and the plan has the schemas as
constants: executors ask nobody. Everything is an expression of columns, so it changes neither the
transaction scope of a query nor whether it can run in real-time mode.

| file            | holds                                                          |
|-----------------|----------------------------------------------------------------|
| `columns.py`    | `decode`, `try_decode`, `encode` and `id_of`                   |
| `frame.py`      | what comes before a value                                      |
| `choice.py`     | which schemas a column uses                                    |
| `verdicts.py`   | whether a value can be decoded, and the value                  |
| `resolution.py` | how two schemas are compared, and what Spark is given          |
| `types.py`      | the supported part of Avro                                     |
| `registry.py`   | what the driver asks a schema registry                         |
| `pin.py`        | the file beside a checkpoint that names a schema               |
| `jar.py`        | Spark's Avro functions, and the limits that they need          |

The confluent-kafka package asks the registry: `pip install 'eoskafka[schemas]'`.
"""

from __future__ import annotations

from eoskafka.schemas.columns import decode, encode, id_of, try_decode
from eoskafka.schemas.jar import package
from eoskafka.schemas.registry import Registry

__all__ = ["Registry", "decode", "encode", "id_of", "package", "try_decode"]
