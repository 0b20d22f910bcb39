#!/bin/sh
# Grants the rights that a query in epoch scope (state, shuffles) needs besides those in acls-task-scope.sh.
# To override the defaults below, set environment variables with these names. Run the script as a user who
# may alter ACLs, with Kafka's bin folder on the PATH. If the brokers require authentication, set
# COMMAND_CONFIG to a client properties file.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-job}"
: "${DECISION_TOPIC:=__eoskafka_decisions}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} \
    --add --allow-principal "$PRINCIPAL" "$@"
}

# Only the first query on a cluster needs Create. If you create the topic yourself, no query needs it.
acl --operation Create --topic "$DECISION_TOPIC"
acl --operation DescribeConfigs --operation Read --operation Write --topic "$DECISION_TOPIC"
# Without this right, epoch scope makes cautious assumptions about the brokers (docs/brokers.md).
acl --operation DescribeConfigs --cluster
