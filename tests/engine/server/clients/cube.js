// What Cube does with its driver for ksqlDB: node cube.js URL, with the driver on NODE_PATH
const { KsqlDriver } = require('@cubejs-backend/ksql-driver');

async function main() {
  const driver = new KsqlDriver({ url: process.argv[2], username: '', password: '', dataSource: 'default' });
  const told = {};
  await driver.testConnection();
  await driver.query("CREATE STREAM `SHOP-SALES` (id INT KEY, price DOUBLE) WITH (KAFKA_TOPIC='sales', VALUE_FORMAT='JSON', PARTITIONS=1)");
  await driver.loadPreAggregationIntoTable('shop.totals',
    'CREATE TABLE `shop.totals` WITH (KAFKA_TOPIC=\'totals\') AS SELECT id, COUNT(*) AS n FROM `SHOP-SALES` WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY id', [],
    { streamOffset: 'earliest' });
  told.tables = (await driver.getTablesQuery('shop')).map((table) => table.table_name);
  told.schema = await driver.tablesSchema();
  told.types = await driver.tableColumnTypes('shop.totals');
  const table = await driver.downloadTable('shop.totals', { streamOffset: 'earliest' });
  told.streaming = [table.streamingTable, table.partitions, table.streamingSource.type];
  told.refused = await driver.query('DESCRIBE `nothing`').then(() => '', (error) => error.message);
  await driver.dropTable('shop.totals', {});
  told.left = (await driver.fetchTables('shop')).map((each) => each.tableName);
  console.log(JSON.stringify(told));
}

main().catch((error) => { console.error(error); process.exit(1); });
