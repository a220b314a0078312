// The examples of the README of ksqldb-js against a server: node readme.js URL
const ksqldb = require('ksqldb-js');
const { setTimeout: sleep } = require('node:timers/promises');

const url = process.argv[2];

async function main() {
  const client = new ksqldb({ ksqldbURL: url });
  const told = {};
  await client.createStream('testStream', ['name VARCHAR', 'email varchar', 'age INTEGER'], 'testTopic', 'json', 1);
  told.streams = (await client.ksql('LIST STREAMS;')).streams.map((stream) => stream.name);
  await client.createTableAs('testTable', 'testStream', ['name', 'LATEST_BY_OFFSET(age) AS recentAge'],
    { topic: 'newTestTopic' }, { WHERE: 'age >= 21', GROUP_BY: 'name' });
  await client.createStreamAs('adults', ['name', 'age'], 'testStream',
    { kafka_topic: 'adultTopic', value_format: 'json', partitions: 1 }, 'age > 18');
  const rows = [];
  const queryId = await client.push('SELECT * FROM testStream EMIT CHANGES;', (data) => rows.push(JSON.parse(data)));
  told.acks = await client.insertStream('testStream', [
    { name: 'jack', email: '123@mail.com', age: 25 },
    { name: 'john', email: '456@mail.com', age: 20 },
  ]);
  for (let turn = 0; turn < 600 && rows.length < 3; turn++) await sleep(100);
  told.pushed = rows.slice(1);
  for (let turn = 0; turn < 600; turn++) {
    told.pulled = (await client.pull("SELECT * FROM testTable WHERE name = 'jack';")).slice(1);
    if (told.pulled.length) break;
    await sleep(100);
  }
  told.between = (await client.pullFromTo('TESTSTREAM', 'America/Los_Angeles', ['2022-01-01', '00', '00', '00'])).length;
  told.terminated = await client.terminate(queryId).then((answer) => answer['@type'], (error) => String(error));
  told.health = (await client.inspectServerHealth()).data.isHealthy;
  told.info = (await client.inspectServerInfo()).data.KsqlServerInfo.serverStatus;
  told.query = (await client.inspectQueryStatus('stream/`TESTSTREAM`/create')).data.status;
  told.property = (await client.isValidProperty('auto.offset.reset')).data;
  await client.ksql('DROP STREAM IF EXISTS nothing;');
  console.log(JSON.stringify(told));
  process.exit(0);
}

main().catch((error) => { console.error(error); process.exit(1); });
