#!/bin/sh
# Grants the rights that a source needs whose query has another sink. The values below are defaults: set
# environment variables of these names to replace them. Run the script as a user who may alter ACLs, with
# Kafka's bin folder on the PATH; COMMAND_CONFIG names a properties file if the brokers want a log-in.
set -eu
: "${SERVERS:=broker:9092}" "${PRINCIPAL:=User:payments-job}"
: "${INPUT:=payments}" "${GROUP:=eoskafka}"

acl() {
  kafka-acls.sh --bootstrap-server "$SERVERS" ${COMMAND_CONFIG:+--command-config "$COMMAND_CONFIG"} \
    --add --allow-principal "$PRINCIPAL" "$@"
}

acl --operation Read --topic "$INPUT"
# The default grants all groups whose names begin with eoskafka, the default of the option groupIdPrefix. With
# kafka.group.id, set GROUP to that name.
acl --operation Read --group "$GROUP" --resource-pattern-type prefixed
