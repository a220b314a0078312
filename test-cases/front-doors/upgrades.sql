-- Queries that are replaced while rows flow.

--@test: a new filter keeps the state and forgets nothing
--@rules: L5.22 L5.23 Q14.1 Q14.2
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE t AS SELECT k, SUM(v) AS total FROM s GROUP BY k;
INSERT INTO s VALUES (1, 10);
INSERT INTO s VALUES (1, 1);
CREATE OR REPLACE TABLE t AS SELECT k, SUM(v) AS total FROM s WHERE v > 5 GROUP BY k;
INSERT INTO s VALUES (1, 2);
INSERT INTO s VALUES (1, 7);
ASSERT VALUES t (k, total) VALUES (1, 10);
ASSERT VALUES t (k, total) VALUES (1, 11);
ASSERT VALUES t (k, total) VALUES (1, 18);

--@test: a column is appended to a query
--@rules: L5.22
CREATE STREAM s (k INT KEY, v INT, w STRING) WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM o WITH (kafka_topic='o') AS SELECT k, v FROM s;
INSERT INTO s (ROWTIME, k, v) VALUES (5, 1, 2);
CREATE OR REPLACE STREAM o WITH (kafka_topic='o') AS SELECT k, v, w FROM s;
INSERT INTO s (ROWTIME, k, v, w) VALUES (6, 3, 4, 'x');
ASSERT VALUES o (ROWTIME, k, v) VALUES (5, 1, 2);
ASSERT VALUES o (ROWTIME, k, v, w) VALUES (6, 3, 4, 'x');
ASSERT STREAM o (k INT KEY, v INT, w STRING) WITH (kafka_topic='o', value_format='JSON');

--@test: a query over an altered stream is replaced
--@rules: L5.17 L5.30
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM o WITH (kafka_topic='o') AS SELECT k, v FROM s;
INSERT INTO s (k, v) VALUES (1, 10);
ALTER STREAM s ADD COLUMN w STRING;
CREATE OR REPLACE STREAM o WITH (kafka_topic='o') AS SELECT k, v, w FROM s;
INSERT INTO s (k, v, w) VALUES (2, 20, 'x');
ASSERT VALUES o (k, v) VALUES (1, 10);
ASSERT VALUES o (k, v, w) VALUES (2, 20, 'x');

--@test: an aggregate over an altered stream is replaced and keeps its sums
--@rules: L5.17 L5.30
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE t WITH (kafka_topic='t') AS SELECT k, SUM(v) AS total FROM s GROUP BY k;
INSERT INTO s (k, v) VALUES (1, 10);
ALTER STREAM s ADD COLUMN w STRING;
CREATE OR REPLACE TABLE t WITH (kafka_topic='t') AS SELECT k, SUM(v) AS total FROM s GROUP BY k;
INSERT INTO s (k, v, w) VALUES (1, 2, 'x');
ASSERT VALUES t (k, total) VALUES (1, 10);
ASSERT VALUES t (k, total) VALUES (1, 12);

--@test: a table over an altered table is replaced
--@rules: L5.30
CREATE TABLE s (k INT PRIMARY KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE t WITH (kafka_topic='t') AS SELECT k, v, ROWTIME AS r FROM s WHERE v > 5;
INSERT INTO s (k, v, ROWTIME) VALUES (1, 10, 1);
INSERT INTO s (k, v, ROWTIME) VALUES (2, 11, 2);
ALTER TABLE s ADD COLUMN w STRING;
CREATE OR REPLACE TABLE t WITH (kafka_topic='t') AS SELECT k, v, ROWTIME AS r, w FROM s WHERE v > 5;
INSERT INTO s (k, v, w, ROWTIME) VALUES (1, 2, 'x', 3);
INSERT INTO s (k, v, w, ROWTIME) VALUES (3, 12, 'y', 4);
INSERT INTO s (k, v, w, ROWTIME) VALUES (2, 13, 'z', 5);
ASSERT VALUES t (k, v, r) VALUES (1, 10, 1);
ASSERT VALUES t (k, v, r) VALUES (2, 11, 2);
ASSERT NULL VALUES t (k) KEY (1);
ASSERT VALUES t (k, v, r, w) VALUES (3, 12, 4, 'y');
ASSERT VALUES t (k, v, r, w) VALUES (2, 13, 5, 'z');

--@test: a record reaches the queries that exist when it is inserted
--@rules: Q14.2
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE STREAM early WITH (kafka_topic='early') AS SELECT k, v FROM s;
INSERT INTO s (k, v) VALUES (1, 10);
CREATE STREAM late WITH (kafka_topic='late') AS SELECT k, v FROM early;
INSERT INTO s (k, v) VALUES (2, 20);
ASSERT VALUES late (k, v) VALUES (2, 20);
ASSERT VALUES early (k, v) VALUES (1, 10);
ASSERT VALUES early (k, v) VALUES (2, 20);

--@test: a derived stream joins with the table that its own input feeds, row by row
--@rules: Q14.2
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;
CREATE STREAM o AS SELECT s.k AS k, v, n FROM s LEFT JOIN t ON s.k = t.k;
INSERT INTO s VALUES (1, 10);
INSERT INTO s VALUES (1, 20);
ASSERT VALUES o (k, v) VALUES (1, 10);
ASSERT VALUES o (k, v) VALUES (1, 20);

--@test: a tombstone
--@rules: Q14.2
CREATE TABLE a (k INT PRIMARY KEY, v INT) WITH (kafka_topic='a', value_format='JSON');
CREATE TABLE b AS SELECT * FROM a WHERE v > 0;
INSERT INTO a VALUES (1, 1);
INSERT INTO a VALUES (1, -1);
ASSERT VALUES b (k, v) VALUES (1, 1);
ASSERT NULL VALUES b (k) KEY (1);
ASSERT TABLE b (k INT PRIMARY KEY, v INT) WITH (kafka_topic='B', value_format='JSON');

--@test: a grouping cannot be replaced
--@rules: L5.22
--@expected.error: io.confluent.ksql.util.KsqlException
--@expected.message: must have matching
CREATE STREAM s (k INT KEY, v INT) WITH (kafka_topic='s', value_format='JSON');
CREATE TABLE t AS SELECT v, COUNT(*) AS n FROM s GROUP BY v;
CREATE OR REPLACE TABLE t AS SELECT v + 1 AS v, COUNT(*) AS n FROM s GROUP BY v + 1;
