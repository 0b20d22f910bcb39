#!/bin/sh
# Grants the rights that a source needs whose query has another sink. Set the variables below, and run the
# script as a user who may alter ACLs.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-job}"
: "${INPUT:=payments}" "${GROUP:=eoskafka}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Read --topic "$INPUT"
# The group's name is kafka.group.id; without that option it begins with groupIdPrefix.
acl --operation Read --group "$GROUP" --resource-pattern-type prefixed
