#!/bin/sh
# Rights of a query in task scope: one that reads and writes the same records in one task.
# Set these, and run it as a user who may alter ACLs.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-job}"
: "${INPUT:=payments}" "${OUTPUT:=payments-clean}"
: "${GROUP:=eoskafka}" "${TRANSACTIONAL_ID_PREFIX:=eoskafka}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Read --topic "$INPUT"
acl --operation Write --topic "$OUTPUT"
# The group's name begins with groupIdPrefix, or is kafka.group.id.
acl --operation Read --group "$GROUP" --resource-pattern-type prefixed
acl --operation Write --operation Describe --transactional-id "$TRANSACTIONAL_ID_PREFIX" --resource-pattern-type prefixed
