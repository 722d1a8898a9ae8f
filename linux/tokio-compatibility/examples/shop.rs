//! A shop: axum, sqlx and reqwest in one service, where orders go before reports.
//!
//! `cargo run --release -p corank-tokio-compatibility --example shop`
//!
//! An order asks a supplier for the price by HTTP and is inserted into a database. A report reads
//! all orders and computes for 20 ms. Eight clients ask for reports without pause, and one orders
//! now and then. The program prints how long orders and reports take, first with one level for all
//! requests, then with orders before reports.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use corank_linux::tower::PriorityLayer;
use corank_linux::{Builder, Priority, yield_now};
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tokio::net::TcpListener;

const REPORT_CLIENTS: usize = 8;
const TIME: Duration = Duration::from_secs(4);
/// What a report computes, and after how long it lets others run.
const REPORT: Duration = Duration::from_millis(20);
const SLICE: Duration = Duration::from_micros(500);

type Error = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
struct Shop {
    orders: SqlitePool,
    supplier: SocketAddr,
    client: reqwest::Client,
}

async fn order(State(shop): State<Shop>) -> Result<String, StatusCode> {
    let failed = |error: Error| {
        eprintln!("an order failed: {error}");
        StatusCode::INTERNAL_SERVER_ERROR
    };
    let place = async {
        let url = format!("http://{}/price", shop.supplier);
        let price: i64 = shop.client.get(url).send().await?.text().await?.parse()?;
        let insert = sqlx::query("INSERT INTO orders (price) VALUES ($1)").bind(price);
        let number = insert.execute(&shop.orders).await?.last_insert_rowid();
        Ok(format!("order {number} for {price}"))
    };
    place.await.map_err(failed)
}

async fn report(State(shop): State<Shop>) -> Result<Json<(i64, i64)>, StatusCode> {
    let sums = sqlx::query_as("SELECT COUNT(*), COALESCE(SUM(price), 0) FROM orders");
    let sums = sums.fetch_one(&shop.orders).await;
    let end = Instant::now() + REPORT;
    while Instant::now() < end {
        let slice = Instant::now() + SLICE;
        while Instant::now() < slice {
            std::hint::spin_loop();
        }
        yield_now().await;
    }
    sums.map(Json)
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

/// Starts the shop and its supplier; returns the shop's address.
async fn open(levels: [Priority; 2]) -> Result<SocketAddr, Error> {
    let supplier = TcpListener::bind("127.0.0.1:0").await?;
    let address = supplier.local_addr()?;
    let prices = Router::new().route("/price", get(|| async { "42" }));
    tokio::spawn(async move { axum::serve(supplier, prices).await });

    let options = SqliteConnectOptions::new().filename(":memory:");
    // A database in memory belongs to its connection.
    let orders = SqlitePoolOptions::new()
        .max_connections(1)
        .connect_with(options)
        .await?;
    let table = "CREATE TABLE orders (number INTEGER PRIMARY KEY, price INTEGER)";
    sqlx::query(table).execute(&orders).await?;
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .build()?;
    let shop = Shop {
        orders,
        supplier: address,
        client,
    };

    let [of_orders, of_reports] = levels;
    let app = Router::new()
        .route("/order", get(order))
        .route("/report", get(report))
        .with_state(shop)
        .layer(PriorityLayer::new(move |request: &Request| {
            match request.uri().path() {
                "/report" => of_reports,
                _ => of_orders,
            }
        }));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

/// Asks for a page again and again; returns how long each answer took, in order.
fn visit(shop: SocketAddr, path: &str, pause: Duration, end: &AtomicBool) -> Vec<Duration> {
    let mut stream = TcpStream::connect(shop).expect("the shop listens");
    stream.set_nodelay(true).expect("a socket");
    let mut answers = BufReader::new(stream.try_clone().expect("a descriptor"));
    let request = format!("GET {path} HTTP/1.1\r\nhost: shop\r\n\r\n");
    let mut times = Vec::new();
    while !end.load(Ordering::Relaxed) {
        let start = Instant::now();
        stream.write_all(request.as_bytes()).expect("it is open");
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            answers.read_line(&mut line).expect("an answer");
            match line.trim_end().to_lowercase().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().expect("a number"),
                Some(_) => {}
                None if line.trim_end().is_empty() => break,
                None => assert!(line.contains(" 200 "), "{path}: {line}"),
            }
        }
        answers.read_exact(&mut vec![0; length]).expect("an answer");
        times.push(start.elapsed());
        thread::sleep(pause);
    }
    times.sort();
    times
}

fn show(name: &str, times: &[Duration]) {
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    let (half, most) = (at(0.5), at(0.99));
    println!(
        "  {name}: half within {half:>9.1?}, 99 % within {most:>9.1?}, {} answers",
        times.len()
    );
}

fn main() -> Result<(), Error> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (orders, reports) = (Priority::new(8).unwrap(), Priority::new(48).unwrap());
    let cases = [
        ("one level", [Priority::DEFAULT; 2]),
        ("orders before reports", [orders, reports]),
    ];
    for (name, levels) in cases {
        let runtime = Builder::new().workers(2).tokio(Priority::DEFAULT).build()?;
        let shop = runtime.block_on(open(levels))?;
        let end = Arc::new(AtomicBool::new(false));
        let visit = |path: &'static str, pause| {
            let end = end.clone();
            thread::spawn(move || visit(shop, path, pause, &end))
        };
        let ordering = visit("/order", Duration::from_millis(3));
        let reporting: Vec<_> = (0..REPORT_CLIENTS)
            .map(|_| visit("/report", Duration::ZERO))
            .collect();
        thread::sleep(TIME);
        end.store(true, Ordering::Relaxed);
        println!("{name}:");
        show(" orders", &ordering.join().expect("no panic"));
        let mut times: Vec<_> = reporting
            .into_iter()
            .flat_map(|client| client.join().expect("no panic"))
            .collect();
        times.sort();
        show("reports", &times);
    }
    Ok(())
}
