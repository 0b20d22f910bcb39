#!/bin/sh
# Grants the rights that a query in task scope needs: a query in which one task reads and writes the same
# records. Set the variables below, and run the script as a user who may alter ACLs.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-job}"
: "${INPUT:=payments}" "${OUTPUT:=payments-clean}"
: "${GROUP:=eoskafka}" "${TRANSACTIONAL_ID_PREFIX:=eoskafka}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Read --topic "$INPUT"
acl --operation Write --topic "$OUTPUT"
# The group's name is kafka.group.id; without that option it begins with groupIdPrefix.
acl --operation Read --group "$GROUP" --resource-pattern-type prefixed
acl --operation Write --operation Describe --transactional-id "$TRANSACTIONAL_ID_PREFIX" --resource-pattern-type prefixed
