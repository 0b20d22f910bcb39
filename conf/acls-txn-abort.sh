#!/bin/sh
# Grants the rights that `eoskafka txn abort` and `eoskafka txn resolve` need. Set the variables
# below, and run the script as a user who may alter ACLs.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-operator}"
: "${TRANSACTIONAL_ID_PREFIX:=eoskafka}" "${DECISION_TOPIC:=__eoskafka_decisions}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Write --transactional-id "$TRANSACTIONAL_ID_PREFIX" --resource-pattern-type prefixed
# These are for transactions of epoch scope and of batch jobs.
acl --operation DescribeConfigs --operation Read --operation Write --topic "$DECISION_TOPIC"
