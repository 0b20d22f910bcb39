#!/bin/sh
# Grants the rights that `eoskafka txn abort` and `eoskafka txn resolve` need. To override the defaults
# below, set environment variables with these names. Run the script as a user who may alter ACLs, with
# Kafka's bin folder on the PATH. If the brokers require authentication, set COMMAND_CONFIG to a client
# properties file.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-operator}"
: "${TRANSACTIONAL_ID_PREFIX:=eoskafka}" "${DECISION_TOPIC:=__eoskafka_decisions}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} \
    --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Write --transactional-id "$TRANSACTIONAL_ID_PREFIX" --resource-pattern-type prefixed
# These rights are needed only for transactions of queries in epoch scope and of batch jobs.
acl --operation DescribeConfigs --operation Read --operation Write --topic "$DECISION_TOPIC"
