#!/bin/sh
# Grants the rights that `eoskafka verify` needs with --input, --output and --group. To override the
# defaults below, set environment variables with these names. Run the script as a user who may alter ACLs,
# with Kafka's bin folder on the PATH. If the brokers require authentication, set COMMAND_CONFIG to a client
# properties file.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-operator}"
: "${INPUT:=payments}" "${OUTPUT:=payments-clean}" "${GROUP:=eoskafka}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} \
    --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Read --operation DescribeConfigs --topic "$INPUT"
acl --operation Read --operation DescribeConfigs --topic "$OUTPUT"
acl --operation Describe --group "$GROUP" --resource-pattern-type prefixed
