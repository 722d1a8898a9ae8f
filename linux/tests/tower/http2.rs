//! Many requests of one HTTP/2 connection, each on its level.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use corank_linux::hyper::Spawner;
use corank_linux::net::UnixStream;
use corank_linux::tower::PriorityLayer;
use corank_linux::{Builder, spawn, yield_now};
use futures::future::join_all;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::{Request, Response, client, server};
use hyper_util::service::TowerToHyperService;
use tower_layer::Layer;
use tower_service::Service;

use crate::{level, own_level};

/// Returns the level that a request names.
fn wanted(request: &Request<Incoming>) -> u8 {
    request
        .uri()
        .path()
        .trim_start_matches('/')
        .parse()
        .unwrap()
}

/// Answers with the level at which it ends, and records its answer.
#[derive(Clone)]
struct Notes(Arc<Mutex<Vec<u8>>>);

impl Service<Request<Incoming>> for Notes {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<String>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let notes = self.0.clone();
        Box::pin(async move {
            yield_now().await;
            assert_eq!(own_level(), wanted(&request));
            notes.lock().unwrap().push(own_level());
            Ok(Response::new(own_level().to_string()))
        })
    }
}

/// Requests that are sent in any order, all at once, are answered by priority. Client, server and
/// answers have levels of their own. The client has sent all requests before the server reads any.
/// The server has read all before it answers any.
#[test]
fn streams_of_one_connection_are_served_by_urgency() {
    const LEVELS: [u8; 10] = [60, 5, 33, 5, 63, 20, 4, 48, 4, 32];
    let notes = Notes(Arc::default());
    let log = notes.0.clone();
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime.block_on_at(level(0), async move {
        let (client, server) = UnixStream::pair().unwrap();
        let service = PriorityLayer::new(|request: &_| level(wanted(request))).layer(notes.clone());
        let serve = server::conn::http2::Builder::new(Spawner(level(3)))
            .serve_connection(server, TowerToHyperService::new(service));
        let serve = spawn(level(2), serve).unwrap();
        let client = client::conn::http2::handshake(Spawner(level(1)), client);
        let (mut sender, connection) = client.await.unwrap();
        let connection = spawn(level(1), connection).unwrap();
        let mut ask = |level: &u8| {
            let request = Request::get(format!("http://test/{level}"));
            sender.send_request(request.body(Empty::<Bytes>::new()).unwrap())
        };
        // Both sides have exchanged their settings.
        ask(&4).await.unwrap();
        notes.0.lock().unwrap().clear();
        let requests: Vec<_> = LEVELS.iter().map(ask).collect();
        for (answer, level) in join_all(requests).await.into_iter().zip(LEVELS) {
            let body = answer.unwrap().into_body().collect().await.unwrap();
            assert_eq!(body.to_bytes(), level.to_string());
        }
        drop(sender);
        connection.await.unwrap().unwrap();
        serve.await.unwrap().unwrap();
    });
    let mut sorted = LEVELS;
    sorted.sort_unstable();
    assert_eq!(*log.lock().unwrap(), sorted);
}
