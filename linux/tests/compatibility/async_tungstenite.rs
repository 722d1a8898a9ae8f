//! `async-tungstenite`: a WebSocket server that echoes, and its client.

use async_tungstenite::tungstenite::Message;
use async_tungstenite::{accept_async, client_async};
use corank_linux::net::{TcpListener, TcpStream};
use futures::{StreamExt, TryStreamExt, future};

use crate::{run, start};

#[test]
fn a_server_echoes() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = start(5, async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (write, read) = accept_async(stream).await.unwrap().split();
            let said =
                read.try_filter(|message| future::ready(message.is_text() || message.is_binary()));
            said.forward(write).await.unwrap();
        });
        let stream = TcpStream::connect(address).await.unwrap();
        let url = format!("ws://{address}/");
        let (mut socket, answer) = client_async(url, stream).await.unwrap();
        assert_eq!(answer.status(), 101);
        for number in 0..100 {
            let message = Message::text(format!("message {number}"));
            socket.send(message.clone()).await.unwrap();
            assert_eq!(socket.next().await.unwrap().unwrap(), message);
        }
        let large = Message::binary(vec![7; 300_000]);
        socket.send(large.clone()).await.unwrap();
        assert_eq!(socket.next().await.unwrap().unwrap(), large);
        socket.close(None).await.unwrap();
        while let Some(Ok(message)) = socket.next().await {
            assert!(message.is_close());
        }
        serve.await.unwrap();
    });
}
