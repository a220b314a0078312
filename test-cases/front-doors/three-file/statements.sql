CREATE STREAM readings (sensor STRING KEY, celsius DOUBLE) WITH (kafka_topic='readings', value_format='JSON');
CREATE TABLE peaks WITH (kafka_topic='peaks') AS SELECT sensor, MAX(celsius) AS peak FROM readings GROUP BY sensor;
