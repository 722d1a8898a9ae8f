//! Orders of the operator, at a port of their own, so that they get through whatever the clients
//! do.
//!
//! One connection at a time, one order on each line, one line as the answer to each.
use alloc::format;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;

use corank_abi::call::{FAULT, FAULT_END, FAULT_MEMORY};
use corank_user::corank::time::sleep;
use corank_user::net::{self, TcpListener, TcpStream};
use corank_user::{Error, information, process, raw};

use crate::server::{PAUSE, Server};

/// The order that ends the server.
const STOP: &str = "stop";
/// The longest order.
const LONGEST: usize = 100;

/// Serves one connection after another.
pub(crate) async fn run(server: Rc<Server>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            // A client that breaks off connects again.
            Ok(stream) => drop(obey(&server, &stream).await),
            Err(_) => sleep(PAUSE).await,
        }
    }
}

async fn obey(server: &Server, stream: &TcpStream) -> Result<(), Error> {
    let mut line = String::new();
    loop {
        let (count, byte) = stream.read(Vec::with_capacity(1)).await;
        if count? == 0 || line.len() > LONGEST {
            return Ok(());
        }
        if byte != b"\n" {
            line.push(char::from(byte[0]));
            continue;
        }
        let mut answer = order(server, line.trim());
        answer.push('\n');
        stream.write_all(answer.into_bytes()).await?;
        // Only after the answer, which the server may not live to send otherwise.
        if line.trim() == STOP {
            server.stop();
        }
        line.clear();
    }
}

fn order(server: &Server, order: &str) -> String {
    let words: Vec<&str> = order.split_whitespace().collect();
    match words[..] {
        ["hello"] => String::from("hello"),
        ["status"] => status(server),
        [STOP] => String::from("stops"),
        ["hold"] => {
            server.hold();
            String::from("holds")
        }
        ["go"] => {
            server.let_go();
            String::from("goes on")
        }
        ["fault", kind @ ("memory" | "end"), step] => match step.parse() {
            Ok(step) => format!("left {}", fault(kind, step)),
            Err(_) => format!("`{step}` is no number"),
        },
        _ => format!("`{}` is no order", order.escape_debug()),
    }
}

/// Makes something fail on purpose.
///
/// Returns how many steps were left to the last fault that was ordered.
fn fault(kind: &str, step: usize) -> isize {
    let kind = if kind == "end" {
        FAULT_END
    } else {
        FAULT_MEMORY
    };
    // SAFETY: the arguments are numbers.
    unsafe { raw::system_call(FAULT, [kind, step, 0]) }
}

/// Returns what is in use, as names with numbers.
fn status(server: &Server) -> String {
    let system = information::system().unwrap_or_default();
    let network = net::status().unwrap_or_default();
    let processes = information::processes().unwrap_or_default();
    let this = process::id() as u64;
    let this = processes.into_iter().find(|record| record.pid == this);
    let this = this.unwrap_or_default();
    let numbers = [
        ("answered", server.answered.get()),
        ("connections", server.open() as u64),
        ("held", server.held()),
        ("frames_free", system.frames_free),
        ("kernel_coroutines", system.coroutines),
        ("kernel_heap", system.heap_used),
        ("sockets", network.sockets - network.fading),
        ("coroutines", this.coroutines),
        ("calls", this.calls),
        ("files", this.files),
        ("pages", this.pages),
    ];
    let words = numbers.map(|(name, number)| format!("{name}={number}"));
    words.join(" ")
}
