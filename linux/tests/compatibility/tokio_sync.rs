//! `tokio::sync`: the part of tokio that belongs to no runtime.

use std::sync::Arc;

use tokio::sync::{Mutex, Notify, Semaphore, broadcast, mpsc, oneshot, watch};

use crate::{run, start};

#[test]
fn channels_carry_everything() {
    run(async {
        let (sender, mut receiver) = mpsc::channel(8);
        for number in 0..10_u64 {
            let sender = sender.clone();
            drop(start(number as u8, async move {
                for round in 0..100 {
                    sender.send(number * 100 + round).await.unwrap();
                }
            }));
        }
        drop(sender);
        let mut sum = 0;
        while let Some(number) = receiver.recv().await {
            sum += number;
        }
        assert_eq!(sum, 499_500);

        let (answer, answered) = oneshot::channel();
        let (ask, mut asked) = watch::channel(0);
        let (sender, mut receiver) = broadcast::channel(4);
        let other = start(3, async move {
            let question = *asked.wait_for(|&question| question > 0).await.unwrap();
            answer.send(question * 2).unwrap();
            sender.send("answered").unwrap();
        });
        ask.send(21).unwrap();
        assert_eq!(answered.await, Ok(42));
        assert_eq!(receiver.recv().await, Ok("answered"));
        other.await.unwrap();
    });
}

#[test]
fn locks_and_notifications_work() {
    run(async {
        let total = Arc::new(Mutex::new(0));
        let room = Arc::new(Semaphore::new(3));
        let last = Arc::new(Notify::new());
        for number in 0..20 {
            let (total, room, last) = (total.clone(), room.clone(), last.clone());
            drop(start(number, async move {
                let _permit = room.acquire().await.unwrap();
                let mut total = total.lock().await;
                *total += 1;
                if *total == 20 {
                    last.notify_one();
                }
            }));
        }
        last.notified().await;
        assert_eq!(*total.lock().await, 20);
    });
}
