-- An application as it goes to production; script-files.yaml tests it.
CREATE STREAM ORDERS (ID INT KEY, ITEM STRING, PRICE DOUBLE) WITH (kafka_topic='orders', value_format='JSON');

CREATE STREAM DEAR AS
  SELECT ID, UCASE(ITEM) AS ITEM, PRICE / 3 AS SHARE, UNIX_TIMESTAMP() AS SEEN_AT
  FROM ORDERS WHERE PRICE >= ${LIMIT};
