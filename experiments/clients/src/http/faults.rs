//! Memory that runs out at every allocation in turn, and a server that ends in the middle of its
//! work.

use crate::server::{Server, get};
use crate::site::{self, LARGE, MIDDLE, MIDDLE_TARGET, URGENT};
use anyhow::{Context, Result, ensure};

/// Acts as a client: does everything that makes the kernel allocate for a request.
///
/// The connection may fail at any place.
fn scenario(server: &Server) -> Result<()> {
    let mut connection = server.connect()?;
    connection.fetch(URGENT, &site::content(URGENT))?;
    connection.send(get("/list/").as_bytes())?;
    connection.answer()?;
    let part = get(MIDDLE_TARGET).replace("\r\n\r\n", "\r\nRange: bytes=20000-\r\n\r\n");
    connection.send(part.as_bytes())?;
    ensure!(connection.answer()?.body == site::content(MIDDLE)[20_000..]);
    Ok(())
}

/// Orders a fault, or takes it back; returns how many steps were left to it.
///
/// The connection of the order may be the one that fails.
fn arm(server: &Server, step: usize) -> Result<usize> {
    let order = format!("fault memory {step}");
    let mut answer = server.order(&order);
    for _ in 0..3 {
        if answer.is_ok() || step > 0 {
            break;
        }
        answer = server.order(&order);
    }
    let Ok(answer) = answer else {
        return Ok(0);
    };
    let left = answer.strip_prefix("left ");
    Ok(left.context("the order's answer")?.parse()?)
}

/// Tests that each allocation of the kernel for a request can fail in turn.
///
/// The next client is served as before.
pub(crate) fn memory_at_every_allocation(server: &Server) -> Result<()> {
    scenario(server).context("without a fault")?;
    for step in 1.. {
        arm(server, step)?;
        let _ = scenario(server);
        let left = arm(server, 0)?;
        scenario(server).with_context(|| format!("after a fault at allocation {step}"))?;
        if left > 0 {
            ensure!(step > 20, "only {step} allocations");
            return Ok(());
        }
    }
    unreachable!("there are so many numbers")
}

/// Ends the server's process while it has as much to do as it can.
///
/// The system takes everything back, which the process in front of the server checks.
pub(crate) fn kill(server: &Server) -> Result<bool> {
    let mut open = Vec::new();
    for number in 0..20 {
        let mut connection = server.connect()?;
        connection.fetch(URGENT, &site::content(URGENT))?;
        if number % 2 == 0 {
            connection.send(get(LARGE).as_bytes())?;
            connection.stream().peek(&mut [0])?;
        }
        open.push(connection);
    }
    // The answer comes only if the end doesn't come first.
    let _ = server.order("fault end 100");
    for connection in &mut open {
        let large = site::content(LARGE).len() + 10_000;
        // Each connection comes to its end, idle ones too.
        let came = connection.read_some(large);
        ensure!(came < large, "more came than there is");
    }
    println!("1 passed, 0 failed");
    Ok(true)
}
