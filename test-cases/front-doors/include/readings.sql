-- Run by tests of scripts; it holds no test of its own.
CREATE STREAM readings (sensor STRING KEY, celsius DOUBLE) WITH (kafka_topic='readings', value_format='JSON');
INSERT INTO readings VALUES ('cellar', 7.5);
