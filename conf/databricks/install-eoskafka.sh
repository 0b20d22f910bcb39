#!/bin/bash
# An init script for Databricks compute. It copies the connector's jar to a folder on the JVM's class path,
# because the class of a Spark plugin must exist when the JVM starts. Set EOSKAFKA_VOLUME as an environment
# variable of the compute. EOSKAFKA_TARGET, the folder to copy to, is only set by a test.
set -euo pipefail
volume=${EOSKAFKA_VOLUME:?set it to the volume that has the jar of eoskafka}
target=${EOSKAFKA_TARGET:-/databricks/jars}
jars=("$volume"/eoskafka-*.jar)
if [ ! -f "${jars[0]}" ] || [ ${#jars[@]} -ne 1 ]; then
  echo "There must be exactly one eoskafka-*.jar in $volume. Copy the file that 'eoskafka jar-path' prints." >&2
  exit 1
fi
cp "${jars[0]}" "$target/"
