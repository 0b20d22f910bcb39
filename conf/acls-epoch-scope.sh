#!/bin/sh
# Rights of a query in epoch scope (state, shuffles, batch writes), besides those of task scope.
# Set these, and run it as a user who may alter ACLs.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-job}"
: "${DECISION_TOPIC:=__eoskafka_decisions}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" --add --allow-principal "$PRINCIPAL" "$@"
}

# Create only for the first query of a cluster; or make the topic yourself.
acl --operation Create --operation Describe --operation DescribeConfigs --operation Read --operation Write --topic "$DECISION_TOPIC"
acl --operation DescribeConfigs --cluster
