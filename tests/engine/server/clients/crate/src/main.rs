//! What the documentation of the crate `ksqldb` shows: cargo run -- HOST:PORT

use futures_util::stream::StreamExt;
use ksqldb::KsqlDB;
use reqwest::Client;
use serde::Deserialize;
use std::collections::HashMap;

#[derive(Deserialize)]
struct Trip {
    #[serde(rename = "id")]
    id: u32,
    #[serde(rename = "fare")]
    fare: f64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).expect("HOST:PORT");
    let ksql = KsqlDB::new(address, Client::builder(), false)?;
    let none = HashMap::new();
    let earliest: HashMap<_, _> = [("ksql.streams.auto.offset.reset".into(), "earliest".into())].into();
    let create = "CREATE STREAM crate_trips (id INT KEY, fare DOUBLE) \
                  WITH (KAFKA_TOPIC='crate_trips', VALUE_FORMAT='JSON', PARTITIONS=1);";
    ksql.create(create, &none, None).await?;
    let listed = ksql.list_streams("SHOW STREAMS EXTENDED;", &none, None).await?;
    let described = ksql.describe("DESCRIBE crate_trips;", &none, None).await?;
    for values in ["(1, 2.5)", "(2, 3.5)"] {
        ksql.execute_statement_raw(&format!("INSERT INTO crate_trips VALUES {values};"), &none, None).await?;
    }
    let mut trips = vec![];
    let query = "SELECT * FROM crate_trips EMIT CHANGES;";
    let mut rows = ksql.select::<Trip>(query, &earliest).await?;
    // It takes the empty frame that ends an answer for a row.
    while trips.len() < 2 {
        let Trip { id, fare } = rows.next().await.expect("a row")?;
        trips.push((id, fare));
    }
    let streams: Vec<_> = listed[0].source_descriptions.iter().map(|each| &each.name).collect();
    let fields: Vec<_> = described[0].source_description.fields.iter().map(|each| &each.name).collect();
    println!("{}", serde_json::json!({"streams": streams, "fields": fields, "trips": trips}));
    Ok(())
}
