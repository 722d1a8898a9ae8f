//! `async-stream`: streams written as loops, of numbers and of connections.

use std::io;

use async_stream::{stream, try_stream};
use corank_linux::net::{TcpListener, TcpStream};
use futures::{AsyncReadExt, AsyncWriteExt, Stream, StreamExt, pin_mut};

use crate::{run, start};

fn zero_to(end: u32) -> impl Stream<Item = u32> {
    stream! {
        for number in 0..end {
            yield number;
        }
    }
}

fn double<S: Stream<Item = u32>>(input: S) -> impl Stream<Item = u32> {
    stream! {
        for await value in input {
            yield value * 2;
        }
    }
}

#[test]
fn streams_are_written_as_loops() {
    let numbers = run(async { double(zero_to(4)).collect::<Vec<_>>().await });
    assert_eq!(numbers, [0, 2, 4, 6]);
}

fn accept(listener: TcpListener) -> impl Stream<Item = io::Result<TcpStream>> {
    try_stream! {
        loop {
            let (stream, _) = listener.accept().await?;
            yield stream;
        }
    }
}

#[test]
fn connections_are_a_stream() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = start(5, async move {
            let connections = accept(listener).take(3);
            pin_mut!(connections);
            while let Some(connection) = connections.next().await {
                connection.unwrap().write_all(b"hello").await.unwrap();
            }
        });
        for _ in 0..3 {
            let mut text = String::new();
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "hello");
        }
        serve.await.unwrap();
    });
}
