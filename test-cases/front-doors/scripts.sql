-- What ends a test, and scripts that a test runs.

--@test: a record that is not the expected one ends a test as any refusal does
--@rules: Q14.3
--@expected.error: java.lang.AssertionError
--@expected.message: Expected record does not match actual. CELSIUS: expected 8.0, was 7.5
CREATE STREAM readings (sensor STRING KEY, celsius DOUBLE) WITH (kafka_topic='readings', value_format='JSON');
INSERT INTO readings VALUES ('cellar', 7.5);
ASSERT VALUES readings (sensor, celsius) VALUES ('cellar', 8.0);

--@test: a record too few ends a test
--@rules: Q14.3
--@expected.error: java.lang.AssertionError
--@expected.message: Expected another record of READINGS
CREATE STREAM readings (sensor STRING KEY, celsius DOUBLE) WITH (kafka_topic='readings', value_format='JSON');
ASSERT VALUES readings (sensor, celsius) VALUES ('cellar', 8.0);

--@test: a value where a tombstone was expected ends a test
--@rules: Q14.3
--@expected.error: java.lang.AssertionError
--@expected.message: Expected a tombstone
CREATE TABLE rooms (sensor STRING PRIMARY KEY, room STRING) WITH (kafka_topic='rooms', value_format='JSON');
INSERT INTO rooms VALUES ('cellar', 'wine');
ASSERT NULL VALUES rooms (sensor) KEY ('cellar');

--@test: a source that was declared otherwise ends a test
--@rules: Q14.3
--@expected.error: java.lang.AssertionError
--@expected.message: Expected schema does not match actual for source READINGS.
CREATE STREAM readings (sensor STRING KEY, celsius DOUBLE) WITH (kafka_topic='readings', value_format='JSON');
ASSERT STREAM readings (sensor STRING KEY, celsius INT) WITH (kafka_topic='readings', value_format='JSON');

--@test: a script beside the test
--@rules: Q14.4
RUN SCRIPT 'include/readings.sql';
ASSERT VALUES readings (sensor, celsius) VALUES ('cellar', 7.5);

--@test: a script by its path from a folder above the test
--@rules: Q14.4
RUN SCRIPT '/front-doors/include/readings.sql';
ASSERT VALUES readings (sensor, celsius) VALUES ('cellar', 7.5);

--@test: a script that is not there
--@rules: Q14.4
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: the script /include/nowhere.sql does not exist
RUN SCRIPT '/include/nowhere.sql';

--@test: a script may not assert
--@rules: Q14.4
--@expected.error: io.confluent.ksql.parser.exception.ParseFailedException
--@expected.message: ASSERT
RUN SCRIPT 'include/asserts.sql';

--@test: the processing log is a stream
--@rules: E8.1 E8.6
SET 'ksql.logging.processing.stream.auto.create'='true';
CREATE STREAM readings (sensor STRING KEY, raw STRING) WITH (kafka_topic='readings', value_format='JSON');
CREATE STREAM parsed AS SELECT sensor, CAST(raw AS INT) AS n FROM readings;
CREATE STREAM errors WITH (value_format='JSON') AS
  SELECT level, message->type AS type, message->recordProcessingError->errorMessage AS said, message->productionError AS none
  FROM ksql_processing_log;
INSERT INTO readings VALUES ('cellar', 'seven');
INSERT INTO readings VALUES ('attic', '21');
ASSERT VALUES parsed (sensor, n) VALUES ('cellar', NULL);
ASSERT VALUES parsed (sensor, n) VALUES ('attic', 21);
ASSERT VALUES errors (level, type) VALUES ('ERROR', 1);
