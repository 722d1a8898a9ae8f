//! `async-broadcast`: every receiver gets every message, and a slow one learns how many it has
//! missed.

use async_broadcast::{RecvError, TryRecvError, broadcast};

use crate::{run, start};

#[test]
fn every_receiver_gets_every_message() {
    run(async {
        let (sender, receiver) = broadcast(2);
        let receivers = [receiver.clone(), receiver];
        let sums = receivers.map(|mut receiver| {
            start(10, async move {
                let mut sum = 0;
                while let Ok(number) = receiver.recv().await {
                    sum += number;
                }
                sum
            })
        });
        for number in 1..=1000 {
            sender.broadcast(number).await.unwrap();
        }
        drop(sender);
        for sum in sums {
            assert_eq!(sum.await.unwrap(), 500_500);
        }
    });
}

#[test]
fn a_slow_receiver_learns_of_missed_messages() {
    run(async {
        let (mut sender, mut receiver) = broadcast(2);
        sender.set_overflow(true);
        for number in 0..5 {
            sender.broadcast(number).await.unwrap();
        }
        assert_eq!(receiver.recv().await, Err(RecvError::Overflowed(3)));
        assert_eq!(receiver.recv().await, Ok(3));
        assert_eq!(receiver.try_recv(), Ok(4));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    });
}
