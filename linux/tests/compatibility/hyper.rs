//! `hyper`: a server that echoes, with its own client.

use std::convert::Infallible;

use corank_linux::hyper::Timer;
use corank_linux::net::{TcpListener, TcpStream, UnixStream};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, client, server};

use crate::{run, start};

async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let answer = match (request.method(), request.uri().path()) {
        (&Method::POST, "/echo") => {
            let body = request.into_body().collect().await?.to_bytes();
            Response::new(Full::new(body))
        }
        _ => {
            let mut answer = Response::new(Full::default());
            *answer.status_mut() = StatusCode::NOT_FOUND;
            answer
        }
    };
    Ok(answer)
}

/// The traits that hyper needs of a connection, which this crate's sockets implement.
trait Socket: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static {}
impl<S: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static> Socket for S {}

async fn exchange(client: impl Socket, server: impl Socket) {
    let serve = start(10, async move {
        let connection = server::conn::http1::Builder::new()
            .timer(Timer)
            .serve_connection(server, service_fn(echo));
        connection.await.unwrap();
    });
    let (mut send, connection) = client::conn::http1::handshake(client).await.unwrap();
    let connection = start(11, async move { connection.await.unwrap() });
    for size in [0, 1, 100_000] {
        let body = Bytes::from(vec![b'x'; size]);
        let request = Request::post("/echo")
            .body(Full::new(body.clone()))
            .unwrap();
        send.ready().await.unwrap();
        let answer = send.send_request(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), body);
    }
    let request = Request::get("/nothing").body(Full::default()).unwrap();
    send.ready().await.unwrap();
    let answer = send.send_request(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::NOT_FOUND);
    drop(answer.into_body());
    drop(send);
    connection.await.unwrap();
    serve.await.unwrap();
}

#[test]
fn a_client_asks_a_server() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = TcpStream::connect(address).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        exchange(client, server).await;
        let (client, server) = UnixStream::pair().unwrap();
        exchange(client, server).await;
    });
}

/// Uses the error type of the body, so that services without errors fit too.
#[test]
fn services_that_cannot_fail_fit() {
    run(async {
        let (client, server) = UnixStream::pair().unwrap();
        let hello = service_fn(async |_: Request<Incoming>| {
            Ok::<_, Infallible>(Response::new("hello".to_string()))
        });
        let serve = start(3, async move {
            let connection = server::conn::http1::Builder::new().serve_connection(server, hello);
            connection.await.unwrap();
        });
        let (mut send, connection) = client::conn::http1::handshake(client).await.unwrap();
        let connection = start(4, async move { connection.await.unwrap() });
        let request = Request::get("/").body(Full::<Bytes>::default()).unwrap();
        send.ready().await.unwrap();
        let answer = send.send_request(request).await.unwrap();
        assert_eq!(
            answer.into_body().collect().await.unwrap().to_bytes(),
            "hello"
        );
        drop(send);
        connection.await.unwrap();
        serve.await.unwrap();
    });
}
