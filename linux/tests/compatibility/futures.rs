//! `futures`: its combinators, channels, buffered I/O and sinks.

use corank_linux::net::{TcpListener, TcpStream};
use corank_linux::time::sleep;
use corank_linux::{pipe, spawn_blocking, yield_now};
use futures::channel::{mpsc, oneshot};
use futures::future::{join_all, select_ok};
use futures::io::{BufReader, BufWriter, copy};
use futures::stream::{self, FuturesUnordered};
use futures::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, FutureExt, SinkExt, StreamExt, TryStreamExt,
    select,
};
use std::time::Duration;

use crate::{run, start};

#[test]
fn lines_are_read_and_copied() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = start(5, async move {
            let (stream, _) = listener.accept().await.unwrap();
            let (read, mut write) = stream.split();
            copy(read, &mut write).await.unwrap();
            write.close().await.unwrap();
        });
        let stream = TcpStream::connect(address).await.unwrap();
        let (read, write) = stream.split();
        let write = start(6, async move {
            let mut write = BufWriter::new(write);
            for number in 0..1000 {
                let line = format!("line {number}\n");
                write.write_all(line.as_bytes()).await.unwrap();
            }
            write.close().await.unwrap();
        });
        let lines: Vec<String> = BufReader::new(read).lines().try_collect().await.unwrap();
        assert_eq!(lines.len(), 1000);
        assert_eq!(lines[999], "line 999");
        write.await.unwrap();
        serve.await.unwrap();
    });
}

#[test]
fn futures_are_joined_selected_and_raced() {
    run(async {
        let squares = (0..50).map(|number| async move {
            yield_now().await;
            number * number
        });
        assert_eq!(join_all(squares).await[49], 2401);

        let blocking = (0..10).map(|number| spawn_blocking(move || number));
        let mut unordered: FuturesUnordered<_> = blocking.collect();
        let mut sum = 0;
        while let Some(number) = unordered.next().await {
            sum += number.unwrap();
        }
        assert_eq!(sum, 45);

        let mut soon = Box::pin(sleep(Duration::from_millis(1)).fuse());
        let mut never = futures::future::pending::<()>().fuse();
        select! {
            () = soon => {}
            () = never => unreachable!(),
        }
        let attempts = [1, 2, 3].map(|number| {
            let attempt = async move { if number == 2 { Ok(number) } else { Err(number) } };
            attempt.boxed()
        });
        assert_eq!(select_ok(attempts).await.unwrap().0, 2);

        let buffered = stream::iter(0..100).map(|number| start(number % 64, async move { number }));
        let numbers: Vec<_> = buffered.buffered(7).map(Result::unwrap).collect().await;
        assert!(numbers.into_iter().eq(0..100));
    });
}

#[test]
fn channels_and_sinks_carry_everything() {
    run(async {
        let (mut sender, receiver) = mpsc::channel(4);
        let (done, is_done) = oneshot::channel();
        let receive = start(20, async move {
            done.send(
                receiver
                    .fold(0, async |sum, number: u64| sum + number)
                    .await,
            )
        });
        let mut numbers = stream::iter(1..=1000).map(Ok);
        sender.send_all(&mut numbers).await.unwrap();
        drop(sender);
        assert_eq!(is_done.await, Ok(500_500));
        receive.await.unwrap().unwrap();

        let (sender, receiver) = pipe::pipe().unwrap();
        let mut sink = sender.into_sink();
        let send = start(3, async move {
            for word in ["one ", "and ", "another"] {
                sink.send(word).await.unwrap();
            }
        });
        let mut text = String::new();
        BufReader::new(receiver)
            .read_to_string(&mut text)
            .await
            .unwrap();
        assert_eq!(text, "one and another");
        send.await.unwrap();
    });
}
