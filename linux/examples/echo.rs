//! The echo server of the README: `cargo run --release -p corank-linux --example echo`.

use corank_linux::{Priority, net::TcpListener, spawn};
use futures::{AsyncReadExt, AsyncWriteExt};

#[corank_linux::main(workers = 2)]
async fn main() -> std::io::Result<()> {
    let admins = TcpListener::bind("127.0.0.1:7000").await?;
    let public = TcpListener::bind("0.0.0.0:7001").await?;
    // 0 is the most urgent level, 63 the least.
    let urgent = spawn(Priority::MOST_URGENT, serve(admins, Priority::MOST_URGENT))?;
    serve(public, Priority::at::<32>()).await?;
    urgent.await?
}

pub(crate) async fn serve(listener: TcpListener, priority: Priority) -> std::io::Result<()> {
    loop {
        let (mut stream, _) = match listener.accept().await {
            Ok(accepted) => accepted,
            // Often no descriptors are left: the next call waits a moment, and connections end.
            Err(error) => {
                eprintln!("accept: {error}");
                continue;
            }
        };
        let echo = async move {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                if stream.write_all(&buffer[..count]).await.is_err() {
                    break;
                }
            }
        };
        spawn(priority, echo)?;
    }
}
