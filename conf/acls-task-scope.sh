#!/bin/sh
# Grants the rights that a query in task scope needs: a query in which one task reads and writes the same
# records. A query with ownership=shared needs the same. To override the defaults below, set environment
# variables with these names. Run the script as a user who may alter ACLs, with Kafka's bin folder on the
# PATH. If the brokers require authentication, set COMMAND_CONFIG to a client properties file.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-job}"
: "${INPUT:=payments}" "${OUTPUT:=payments-clean}"
: "${GROUP:=eoskafka}" "${TRANSACTIONAL_ID_PREFIX:=eoskafka}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} \
    --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Read --topic "$INPUT"
acl --operation Write --topic "$OUTPUT"
# By default, this grants access to all groups whose names begin with eoskafka, the default of the option
# groupIdPrefix. If you set kafka.group.id, set GROUP to the same name.
acl --operation Read --group "$GROUP" --resource-pattern-type prefixed
# Kafka's own authorizer derives Describe from Write. If yours does not, grant Describe as well.
acl --operation Write --transactional-id "$TRANSACTIONAL_ID_PREFIX" --resource-pattern-type prefixed
