//! The locks, channels and the like of a scene, of `corank-mcu`.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;

use super::held::Boxed;
pub(crate) use super::held::{Got, Held, Shared};
use super::served::Served;
use corank_mcu::sync::{Channel, Event, Keys, Mutex, Semaphore};
use corank_mcu::time::Clock;
use corank_model::{Op, Settings};

/// Traces use fewer keys than this at a time.
const KEYS: usize = 4;

struct Primitives {
    mutexes: Vec<Mutex<()>>,
    semaphores: Vec<Semaphore>,
    events: Vec<Event>,
    channels: Vec<Box<dyn AnyChannel>>,
    keys: Keys<KEYS>,
    clock: &'static Clock,
}

pub(crate) fn primitives(settings: &Settings, executor: &Served) -> Rc<dyn Shared> {
    let channel = |&capacity: &_| -> Box<dyn AnyChannel> {
        match capacity {
            1 => Box::new(Channel::<u64, 1>::new()),
            2 => Box::new(Channel::<u64, 2>::new()),
            3 => Box::new(Channel::<u64, 3>::new()),
            4 => Box::new(Channel::<u64, 4>::new()),
            _ => panic!("no trace has a channel of capacity {capacity}: add it here"),
        }
    };
    let semaphore = |&permits: &_| Semaphore::new(permits as usize);
    Rc::new(Primitives {
        mutexes: (0..settings.mutexes).map(|_| Mutex::new(())).collect(),
        semaphores: settings.semaphores.iter().map(semaphore).collect(),
        events: (0..settings.events).map(|_| Event::new()).collect(),
        channels: settings.channels.iter().map(channel).collect(),
        keys: Keys::new(),
        clock: executor.clock,
    })
}

/// A channel of any capacity.
trait AnyChannel {
    fn send(&self, message: u64) -> Boxed<'_, ()>;
    fn receive(&self) -> Boxed<'_, u64>;
}

impl<const N: usize> AnyChannel for Channel<u64, N> {
    fn send(&self, message: u64) -> Boxed<'_, ()> {
        Box::pin(self.send(message))
    }

    fn receive(&self) -> Boxed<'_, u64> {
        Box::pin(self.receive())
    }
}

impl Shared for Primitives {
    fn wait(&self, op: Op) -> Option<Boxed<'_, Got<'_>>> {
        Some(match op {
            Op::Lock(mutex) => {
                let lock = self.mutexes[mutex].lock();
                Box::pin(async move { Got::hold(Op::Unlock(mutex), lock.await) })
            }
            Op::Acquire(semaphore) => {
                let acquire = self.semaphores[semaphore].acquire();
                Box::pin(async move { Got::hold(Op::Release(semaphore), acquire.await) })
            }
            Op::WaitEvent(event) => Box::pin(Got::nothing(self.events[event].wait())),
            Op::Send(channel, message) => {
                Box::pin(Got::nothing(self.channels[channel].send(message)))
            }
            Op::Receive(channel) => {
                let receive = self.channels[channel].receive();
                Box::pin(async { Got::Message(receive.await) })
            }
            Op::WaitKey(key) => {
                let wait = self.keys.wait(key);
                Box::pin(Got::nothing(async { wait.await.expect("a slot is free") }))
            }
            Op::Sleep(deadline) => Box::pin(Got::nothing(self.clock.sleep_until(deadline))),
            _ => return None,
        })
    }

    fn apply(&self, op: Op) -> bool {
        match op {
            Op::Set(event) => self.events[event].set(),
            Op::Reset(event) => self.events[event].reset(),
            Op::SignalKey(key) => self.keys.signal(key).expect("a slot is free"),
            Op::Release(semaphore) => self.semaphores[semaphore].release(),
            _ => return false,
        }
        true
    }
}
