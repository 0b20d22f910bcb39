#!/bin/sh
# Grants the rights that `eoskafka verify` needs with --input, --output and --group. Set the variables
# below, and run the script as a user who may alter ACLs.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-operator}"
: "${INPUT:=payments}" "${OUTPUT:=payments-clean}" "${GROUP:=eoskafka}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Read --operation DescribeConfigs --topic "$INPUT"
acl --operation Read --operation DescribeConfigs --topic "$OUTPUT"
acl --operation Describe --group "$GROUP" --resource-pattern-type prefixed
