#!/bin/bash
# An init script of Databricks compute: it puts the connector's jar where the JVM finds it when it starts,
# because the class of a Spark plugin must exist then. EOSKAFKA_VOLUME is an environment variable of the compute.
# A test sets EOSKAFKA_TARGET, the folder to copy to.
set -euo pipefail
volume=${EOSKAFKA_VOLUME:?set it to the volume that has the jar of eoskafka}
target=${EOSKAFKA_TARGET:-/databricks/jars}
jars=("$volume"/eoskafka-*.jar)
if [ ! -f "${jars[0]}" ] || [ ${#jars[@]} -ne 1 ]; then
  echo "There must be exactly one eoskafka-*.jar in $volume. Copy the file that 'eoskafka jar-path' prints." >&2
  exit 1
fi
cp "${jars[0]}" "$target/"
