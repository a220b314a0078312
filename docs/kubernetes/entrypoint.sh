#!/bin/bash
# Runs a command of Kestrel, or, as `executor`, the executor that Spark's driver asks Kubernetes for.
set -eu
[ "${1:-}" = executor ] || exec "$@"
options=()
while IFS= read -r -d '' entry; do
    case $entry in SPARK_JAVA_OPT_*) options+=("${entry#*=}") ;; esac
done < <(env -0 | sort -z -V)
exec "$JAVA_HOME/bin/java" "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "${SPARK_CONF_DIR:-}:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
