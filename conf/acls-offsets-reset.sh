#!/bin/sh
# Grants the rights that `eoskafka offsets reset` and `eoskafka offsets adopt` need. To override the
# defaults below, set environment variables with these names. Run the script as a user who may alter ACLs,
# with Kafka's bin folder on the PATH. If the brokers require authentication, set COMMAND_CONFIG to a client
# properties file.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-operator}"
: "${INPUT:=payments}" "${GROUP:=eoskafka}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} \
    --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Read --topic "$INPUT"
acl --operation Read --group "$GROUP" --resource-pattern-type prefixed
