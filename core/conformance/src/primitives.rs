//! The locks, channels and the like of a scene: of one thread, or of the executor that serves it.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;

use super::held::Boxed;
pub(crate) use super::held::{Got, Held, Shared};
use super::served::Served;
use corank::key::Keys;
use corank::sync::{Channel, Event, Mutex, Semaphore};
use corank::{Ownership, SharedExecutor, time, workers};
use corank_model::{Op, Settings};

struct Primitives<O: Ownership> {
    mutexes: Vec<Mutex<(), O>>,
    semaphores: Vec<Semaphore<O>>,
    events: Vec<Event<O>>,
    channels: Vec<Box<dyn AnyChannel>>,
    keys: Keys<O>,
    sleep: fn(u64) -> Boxed<'static, ()>,
}

/// Makes a scene's primitives by these constructors.
macro_rules! primitives {
    ($settings:expr, $sleep:expr, $new:ident($($place:expr)?)) => {
        Primitives {
            mutexes: (0..$settings.mutexes).map(|_| Mutex::$new($($place,)? ())).collect(),
            semaphores: ($settings.semaphores.iter())
                .map(|&permits| Semaphore::$new($($place,)? permits as usize))
                .collect(),
            events: (0..$settings.events).map(|_| Event::$new($($place)?)).collect(),
            channels: ($settings.channels.iter())
                .map(|capacity| -> Box<dyn AnyChannel> {
                    match capacity {
                        1 => Box::new(Channel::<u64, 1, _>::$new($($place)?)),
                        2 => Box::new(Channel::<u64, 2, _>::$new($($place)?)),
                        3 => Box::new(Channel::<u64, 3, _>::$new($($place)?)),
                        4 => Box::new(Channel::<u64, 4, _>::$new($($place)?)),
                        _ => panic!("no trace has a channel of capacity {capacity}: add it here"),
                    }
                })
                .collect(),
            keys: Keys::$new($($place)?),
            sleep: |deadline| Box::pin($sleep(deadline)),
        }
    };
}

pub(crate) fn primitives(settings: &Settings, executor: &Served) -> Rc<dyn Shared> {
    match executor {
        Served::Single(_) => Rc::new(primitives!(settings, time::sleep_until, new())),
        Served::Shared(executor) => shared_primitives(settings, executor),
        #[cfg(feature = "std")]
        Served::Threads(executor) => shared_primitives(settings, executor),
        Served::Driven(driver) => shared_primitives(settings, driver.executor()),
    }
}

fn shared_primitives(settings: &Settings, executor: &SharedExecutor) -> Rc<dyn Shared> {
    Rc::new(primitives!(
        settings,
        workers::sleep_until,
        new_in(executor)
    ))
}

/// A channel of any capacity.
trait AnyChannel {
    fn send(&self, message: u64) -> Boxed<'_, ()>;
    fn receive(&self) -> Boxed<'_, u64>;
}

impl<const N: usize, O: Ownership> AnyChannel for Channel<u64, N, O> {
    fn send(&self, message: u64) -> Boxed<'_, ()> {
        let send = self.send(message);
        Box::pin(async { send.await.expect("it is never closed") })
    }

    fn receive(&self) -> Boxed<'_, u64> {
        let receive = self.receive();
        Box::pin(async { receive.await.expect("it is never closed") })
    }
}

impl<O: Ownership> Shared for Primitives<O> {
    fn wait(&self, op: Op) -> Option<Boxed<'_, Got<'_>>> {
        // Each future is made here and awaited there: its place among the waiters is its own.
        Some(match op {
            Op::Lock(mutex) => {
                let lock = self.mutexes[mutex].lock();
                Box::pin(async move { Got::hold(Op::Unlock(mutex), lock.await) })
            }
            Op::Acquire(semaphore) => {
                let acquire = self.semaphores[semaphore].acquire();
                Box::pin(async move { Got::hold(Op::Release(semaphore), acquire.await) })
            }
            Op::WaitEvent(event) => {
                let wait = self.events[event].wait();
                Box::pin(Got::nothing(wait))
            }
            Op::Send(channel, message) => {
                let send = self.channels[channel].send(message);
                Box::pin(Got::nothing(send))
            }
            Op::Receive(channel) => {
                let receive = self.channels[channel].receive();
                Box::pin(async { Got::Message(receive.await) })
            }
            Op::WaitKey(key) => {
                let wait = self.keys.wait(key);
                Box::pin(Got::nothing(async { wait.await.expect("memory") }))
            }
            Op::Sleep(deadline) => {
                let sleep = (self.sleep)(deadline);
                Box::pin(Got::nothing(sleep))
            }
            _ => return None,
        })
    }

    fn apply(&self, op: Op) -> bool {
        match op {
            Op::Set(event) => self.events[event].set(),
            Op::Reset(event) => self.events[event].reset(),
            Op::SignalKey(key) => self.keys.signal(key).expect("memory"),
            Op::Release(semaphore) => self.semaphores[semaphore].release(),
            _ => return false,
        }
        true
    }
}
