//! The channel: order of messages, order of waiters, closing, and leaving (rules N9, N10).

use std::rc::Rc;

use crate::common::{Log, executor, poll_once, spawn};
use corank::sync::{Channel, SendError, TryReceiveError, TrySendError};
use corank::{Executor, JoinHandle, State};

type Shared<const N: usize> = Rc<Channel<u32, N>>;

fn sender<const N: usize>(
    executor: &Executor,
    at: u8,
    channel: &Shared<N>,
    messages: impl IntoIterator<Item = u32> + 'static,
) -> JoinHandle<Result<(), SendError<u32>>> {
    let channel = channel.clone();
    spawn(executor, at, async move {
        for message in messages {
            channel.send(message).await?;
        }
        Ok(())
    })
}

/// Receives `count` messages and logs them with its name.
fn receiver<const N: usize>(
    executor: &Executor,
    at: u8,
    channel: &Shared<N>,
    name: &'static str,
    count: usize,
    log: &Log,
) -> JoinHandle<()> {
    let (channel, log) = (channel.clone(), log.clone());
    spawn(executor, at, async move {
        for _ in 0..count {
            match channel.receive().await {
                Some(message) => log.push(format!("{name}{message}")),
                None => log.push(format!("{name}-")),
            }
        }
    })
}

#[test]
fn messages_keep_their_order_through_a_full_channel() {
    let (executor, log) = (executor(), Log::default());
    let channel: Shared<2> = Rc::default();
    let sender = sender(&executor, 5, &channel, 1..=6);
    drop(receiver(&executor, 9, &channel, "", 6, &log));
    executor.run_until_idle();
    assert_eq!(log.take(), "1 2 3 4 5 6");
    assert!(sender.try_join().unwrap().is_ok());
    assert!(channel.is_empty());
}

#[test]
fn a_full_channel_blocks_and_room_goes_to_the_most_urgent_sender() {
    let (executor, log) = (executor(), Log::default());
    let channel: Shared<1> = Rc::default();
    channel.try_send(0).unwrap();
    assert_eq!(channel.try_send(1), Err(TrySendError::Full(1)));
    let [low, high] = [20, 10].map(|at| {
        let sender = sender(&executor, at, &channel, [u32::from(at)]);
        executor.run_until_idle();
        sender
    });
    assert_eq!(channel.try_receive(), Ok(0));
    // The room is reserved for the sender that was woken for it.
    assert_eq!(executor.state(high.id()), Some(State::Ready));
    assert_eq!(executor.state(low.id()), Some(State::Blocked));
    assert_eq!(channel.try_send(1), Err(TrySendError::Full(1)));
    assert_eq!(channel.try_receive(), Err(TryReceiveError::Empty));
    drop(receiver(&executor, 30, &channel, "", 2, &log));
    executor.run_until_idle();
    assert_eq!(log.take(), "10 20");
}

#[test]
fn a_message_goes_to_the_most_urgent_receiver() {
    let (executor, log) = (executor(), Log::default());
    let channel: Shared<4> = Rc::default();
    for (at, name) in [(20, "c"), (10, "a"), (20, "d"), (10, "b")] {
        drop(receiver(&executor, at, &channel, name, 1, &log));
        executor.run_until_idle();
    }
    for message in 1..=4 {
        channel.try_send(message).unwrap();
    }
    // All four are reserved.
    assert_eq!(channel.try_receive(), Err(TryReceiveError::Empty));
    assert_eq!(executor.run_until_idle(), 4);
    assert_eq!(log.take(), "a1 b2 c3 d4");
}

#[test]
fn closing_keeps_what_is_there_and_refuses_the_rest() {
    let (executor, log) = (executor(), Log::default());
    let channel: Shared<1> = Rc::default();
    let first = sender(&executor, 5, &channel, [1]);
    let second = sender(&executor, 5, &channel, [2]);
    executor.run_until_idle();
    channel.close();
    executor.run_until_idle();
    assert_eq!(first.try_join().unwrap().unwrap(), Ok(()));
    assert_eq!(second.try_join().unwrap().unwrap(), Err(SendError(2)));
    assert_eq!(channel.try_send(3), Err(TrySendError::Closed(3)));
    let third = sender(&executor, 5, &channel, [4]);
    drop(receiver(&executor, 9, &channel, "r", 3, &log));
    executor.run_until_idle();
    assert_eq!(third.try_join().unwrap().unwrap(), Err(SendError(4)));
    assert_eq!(log.take(), "r1 r- r-");
    assert_eq!(channel.try_receive(), Err(TryReceiveError::Closed));
}

#[test]
fn closing_wakes_waiters_and_honours_what_was_handed_over() {
    let (executor, log) = (executor(), Log::default());
    let channel: Shared<1> = Rc::default();
    drop(receiver(&executor, 9, &channel, "a", 1, &log));
    drop(receiver(&executor, 9, &channel, "b", 1, &log));
    executor.run_until_idle();
    channel.try_send(1).unwrap();
    channel.close();
    assert_eq!(executor.run_until_idle(), 2);
    assert_eq!(log.take(), "a1 b-");

    let channel: Shared<1> = Rc::default();
    channel.try_send(1).unwrap();
    let late = sender(&executor, 9, &channel, [2]);
    executor.run_until_idle();
    assert_eq!(channel.try_receive(), Ok(1));
    channel.close(); // the room was handed over, but nothing is put into a closed channel
    executor.run_until_idle();
    assert_eq!(late.try_join().unwrap().unwrap(), Err(SendError(2)));
    assert!(channel.is_empty());
}

#[test]
fn a_receiver_that_leaves_loses_no_message() {
    let (executor, log) = (executor(), Log::default());
    let channel: Shared<2> = Rc::default();
    let [a, b, _c] = ["a", "b", "c"].map(|name| {
        let receiver = receiver(&executor, 9, &channel, name, 1, &log);
        executor.run_until_idle();
        receiver
    });
    assert!(b.cancel()); // in the queue
    channel.try_send(1).unwrap();
    assert!(a.cancel()); // woken for the message
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(log.take(), "c1");
    // With no receiver left, the message is free again.
    let d = receiver(&executor, 9, &channel, "d", 1, &log);
    executor.run_until_idle();
    channel.try_send(2).unwrap();
    channel.try_send(3).unwrap();
    d.cancel();
    assert_eq!(channel.try_receive(), Ok(2));
    assert_eq!(channel.try_receive(), Ok(3));
}

#[test]
fn a_sender_that_leaves_loses_no_room() {
    let executor = executor();
    let channel: Shared<1> = Rc::default();
    channel.try_send(0).unwrap();
    let [a, b, c] = [1, 2, 3].map(|message| {
        let sender = sender(&executor, 9, &channel, [message]);
        executor.run_until_idle();
        sender
    });
    assert!(b.cancel());
    assert_eq!(channel.try_receive(), Ok(0));
    assert!(a.cancel());
    assert_eq!(executor.run_until_idle(), 1);
    assert!(c.try_join().unwrap().is_ok());
    assert_eq!(channel.try_receive(), Ok(3));
    assert_eq!(channel.try_send(4), Ok(()));
}

#[test]
fn futures_dropped_by_their_own_coroutine_leave_as_well() {
    let executor = executor();
    let channel: Shared<1> = Rc::default();
    let theirs = channel.clone();
    drop(spawn(&executor, 9, async move {
        let mut receive = Box::pin(theirs.receive());
        assert!(poll_once(&mut receive).await.is_pending());
        theirs.try_send(1).unwrap();
        drop(receive); // gives the message back
        let mut send = Box::pin(theirs.send(2));
        assert!(poll_once(&mut send).await.is_pending());
        assert_eq!(theirs.try_receive(), Ok(1));
        assert_eq!(theirs.try_send(3), Err(TrySendError::Full(3)));
        drop(send); // gives the room back, and its message is gone
        theirs.try_send(3).unwrap();
    }));
    assert_eq!(executor.run_until_idle(), 1);
    assert_eq!(channel.try_receive(), Ok(3));
    assert_eq!(channel.try_receive(), Err(TryReceiveError::Empty));
}

#[test]
fn messages_that_were_not_taken_are_dropped_once() {
    let message = Rc::new(());
    let channel = Channel::<Rc<()>, 3>::new();
    for _ in 0..3 {
        channel.try_send(message.clone()).unwrap();
    }
    drop(channel.try_receive());
    assert_eq!(Rc::strong_count(&message), 3);
    drop(channel.send(message.clone()));
    assert_eq!(Rc::strong_count(&message), 3);
    drop(channel);
    assert_eq!(Rc::strong_count(&message), 1);
}
