CREATE STREAM ORDERS (ID INT KEY, QTY INT) WITH (kafka_topic='orders', value_format='JSON');
CREATE STREAM LARGE_ORDERS WITH (kafka_topic='large-orders') AS SELECT * FROM ORDERS WHERE QTY >= 10;
