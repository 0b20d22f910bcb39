#!/bin/sh
# Grants the rights that a query in task scope needs: a query in which one task reads and writes the same
# records. A query with ownership=shared needs the same. Set the variables below, and run the script as a user
# who may alter ACLs.
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
# Kafka's own authorizer derives Describe from Write. If yours does not, grant Describe as well.
acl --operation Write --transactional-id "$TRANSACTIONAL_ID_PREFIX" --resource-pattern-type prefixed
