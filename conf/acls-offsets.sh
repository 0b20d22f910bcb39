#!/bin/sh
# Grants the rights that `eoskafka offsets show` and `eoskafka offsets lag` need. The values below are
# defaults: set environment variables of these names to replace them. Run the script as a user who may alter
# ACLs, with Kafka's bin folder on the PATH; COMMAND_CONFIG names a properties file if the brokers want a
# log-in.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-operator}"
: "${INPUT:=payments}" "${GROUP:=eoskafka}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} \
    --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Describe --topic "$INPUT"
acl --operation Describe --group "$GROUP" --resource-pattern-type prefixed
