#!/bin/sh
# Grants the rights that `eoskafka offsets reset` and `eoskafka offsets adopt` need. Set the variables
# below, and run the script as a user who may alter ACLs.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-operator}"
: "${INPUT:=payments}" "${GROUP:=eoskafka}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Read --topic "$INPUT"
acl --operation Read --group "$GROUP" --resource-pattern-type prefixed
