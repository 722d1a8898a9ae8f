//! The server: takes connections as far as there is room, and ends in order.
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::time::Duration;

use corank_user::corank::sync::{Event, Semaphore};
use corank_user::corank::time::{sleep, timeout};
use corank_user::io::OwnedFd;
use corank_user::net::TcpListener;
use corank_user::runtime::{self, Global};
use corank_user::{Priority, eprintln, println, ring, spawn};

use crate::options::Options;
use crate::{connection, control};

/// Connections that the kernel keeps for us while there is no room; further ones try again.
const BACKLOG: usize = 512;
/// Time for which connections may go on when the server ends.
const DRAINING: Duration = Duration::from_secs(10);
/// Time for which the server waits before it repeats what failed for want of memory.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// State that the connections share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) options: Options,
    /// The level at which a connection waits for a request of unknown urgency.
    pub(crate) intake: Priority,
    /// Room for connections.
    room: Semaphore,
    /// The idle connections, by when they became idle; the event tells one to end.
    idle: RefCell<BTreeMap<u64, Rc<Event>>>,
    /// Number of times that a connection has become idle.
    idled: Cell<u64>,
    /// Tells whether an accepted connection waits for room.
    has_waiting_connection: Cell<bool>,
    /// Gate for requests, which are served while it is set.
    gate: Event,
    /// Number of requests that wait at the gate.
    held: Cell<u64>,
    stops: Event,
    pub(crate) answered: Cell<u64>,
}

/// Runs the server and returns its exit code.
///
/// The server ends when the process at the other end of `pipe` closes that end.
pub(crate) fn run(options: Options, pipe: OwnedFd) -> i32 {
    let intake = Priority::new(options.levels.most_urgent()).unwrap_or_default();
    runtime::run(intake, Global::Relaxed, serve(options, intake, pipe))
}

async fn serve(options: Options, intake: Priority, pipe: OwnedFd) -> i32 {
    let bind = |port| {
        TcpListener::with_backlog(port, BACKLOG)
            .inspect_err(|error| eprintln!("http-server: port {port}: {error}"))
    };
    let Ok(listener) = bind(options.port) else {
        return 1;
    };
    let orders = match options.control.map(bind).transpose() {
        Ok(orders) => orders,
        Err(_) => return 1,
    };
    let server = Rc::new(Server {
        intake,
        room: Semaphore::new(options.connections),
        idle: RefCell::default(),
        idled: Cell::new(0),
        has_waiting_connection: Cell::new(false),
        gate: Event::new(),
        held: Cell::new(0),
        stops: Event::new(),
        answered: Cell::new(0),
        options,
    });
    server.let_go();
    println!("http-server: listening at port {}", server.options.port);
    if let Some(orders) = orders {
        let controlled = control::run(server.clone(), orders);
        drop(spawn(intake, controlled).expect("memory for a coroutine"));
    }
    let accepting =
        spawn(intake, accept(server.clone(), listener)).expect("memory for a coroutine");
    let stopped = server.clone();
    let watching = spawn(intake, async move {
        let _ = ring::read(&pipe, Vec::with_capacity(1)).await;
        stopped.stop();
    });
    drop(watching.expect("memory for a coroutine"));
    server.stops.wait().await;
    accepting.cancel();
    if timeout(DRAINING, server.wait_until_empty()).await.is_err() {
        println!("http-server: some connections were broken off");
    }
    println!("http-server: {} answers", server.answered.get());
    0
}

/// Takes connections while there is room.
///
/// What is not taken waits in the kernel, up to [`BACKLOG`].
async fn accept(server: Rc<Server>, listener: TcpListener) {
    loop {
        let Ok(stream) = listener.accept().await else {
            // Too little memory, or too many files: the connection waits in the kernel.
            sleep(PAUSE).await;
            continue;
        };
        let permit = server.permit().await;
        // Without memory for a coroutine the connection is closed.
        let _ = spawn(server.intake, connection::run(permit, stream)).map(drop);
    }
}

impl Server {
    /// Ends the server in order.
    ///
    /// It takes no new connections and closes idle ones. The others end after their current answer.
    pub(crate) fn stop(&self) {
        self.stops.set();
        self.let_go();
        for idle in self.idle.borrow().values() {
            idle.set();
        }
    }

    /// Holds requests behind their heads from now on, until [`let_go`](Self::let_go).
    ///
    /// It does nothing if the server ends.
    pub(crate) fn hold(&self) {
        if !self.stops.is_set() {
            self.gate.reset();
        }
    }

    /// Releases held requests, the most urgent first.
    pub(crate) fn let_go(&self) {
        self.gate.set();
    }

    /// Returns the number of held requests.
    pub(crate) fn held(&self) -> u64 {
        self.held.get()
    }

    /// Waits while requests are held; called when a request is about to be served, at its level.
    pub(crate) async fn pass(&self) {
        let _held = Held::new(&self.held);
        self.gate.wait().await;
    }

    /// Tests whether a connection must end after its current answer.
    ///
    /// It must if others wait for its permit, or if the server ends.
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.has_waiting_connection.get() || self.stops.is_set()
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.options.connections - self.room.free()
    }

    /// Waits for a permit for a connection.
    ///
    /// If all are taken, the connection that has been idle for longest has to go.
    async fn permit(self: &Rc<Self>) -> Permit {
        if self.room.free() == 0 {
            self.has_waiting_connection.set(true);
            if let Some((_, idle)) = self.idle.borrow().first_key_value() {
                idle.set();
            }
        }
        self.room.acquire().await.forget();
        self.has_waiting_connection.set(false);
        Permit(self.clone())
    }

    async fn wait_until_empty(&self) {
        for _ in 0..self.options.connections {
            self.room.acquire().await.forget();
        }
    }
}

/// The permit of one connection, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Permit(Rc<Server>);

impl Permit {
    pub(crate) fn server(&self) -> &Rc<Server> {
        &self.0
    }

    /// Counts the connection as idle until the result is dropped.
    pub(crate) fn idle(&self) -> Idle {
        let server = self.0.clone();
        let number = server.idled.get();
        server.idled.set(number + 1);
        let unwanted = Rc::new(Event::new());
        if server.is_short_of_room() {
            unwanted.set();
        }
        server.idle.borrow_mut().insert(number, unwanted.clone());
        Idle {
            server,
            number,
            unwanted,
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.room.release();
    }
}

/// An idle connection.
#[derive(Debug)]
pub(crate) struct Idle {
    server: Rc<Server>,
    number: u64,
    /// Event that tells the connection to end.
    pub(crate) unwanted: Rc<Event>,
}

impl Drop for Idle {
    fn drop(&mut self) {
        self.server.idle.borrow_mut().remove(&self.number);
    }
}

/// A held request, counted until it goes on or its connection ends.
struct Held<'a>(&'a Cell<u64>);

impl<'a> Held<'a> {
    fn new(count: &'a Cell<u64>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}
