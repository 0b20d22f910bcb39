#!/bin/sh
# Grants the rights that `eoskafka offsets show` and `eoskafka offsets lag` need. Set the variables
# below, and run the script as a user who may alter ACLs.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-operator}"
: "${INPUT:=payments}" "${GROUP:=eoskafka}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Describe --topic "$INPUT"
acl --operation Describe --group "$GROUP" --resource-pattern-type prefixed
