//! Databases: sqlx with SQLite and PostgreSQL, redis. The servers are Debian's.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use futures::prelude::*;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, RedisResult};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use tempfile::TempDir;

use super::{LONG, run};

/// A server in a folder of its own, which ends with this.
struct Server {
    process: Child,
    folder: TempDir,
}

impl Server {
    fn start(mut command: Command, folder: TempDir, socket: &Path) -> Self {
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = process
            .unwrap_or_else(|error| panic!("{command:?}: {error}; install it: cargo xtask setup"));
        let mut server = Self { process, folder };
        let begin = Instant::now();
        while std::os::unix::net::UnixStream::connect(socket).is_err() {
            let ended = server.process.try_wait().unwrap();
            assert!(ended.is_none(), "{command:?} ended: {ended:?}");
            assert!(begin.elapsed() < LONG, "{command:?} does not listen");
            thread::sleep(Duration::from_millis(5));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn redis_server() -> Server {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("redis");
    let mut command = Command::new("redis-server");
    command
        .args(["--port", "0", "--save", "", "--unixsocket"])
        .arg(&socket);
    command.current_dir(folder.path());
    Server::start(command, folder, &socket)
}

/// Returns the folder with the programs of the newest PostgreSQL.
fn postgresql() -> PathBuf {
    let versions = std::fs::read_dir("/usr/lib/postgresql").expect("type: cargo xtask setup");
    let newest = versions.map(|version| version.unwrap().path()).max();
    newest.expect("type: cargo xtask setup").join("bin")
}

/// PostgreSQL does not run as root: then its own user runs it. Returns false if that is forbidden.
fn as_its_user(command: &mut Command, folder: &Path) -> bool {
    let id = |kind| {
        let output = Command::new("id")
            .args([kind, "postgres"])
            .output()
            .unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .trim()
            .parse::<u32>()
            .unwrap()
    };
    if String::from_utf8_lossy(&Command::new("id").arg("-u").output().unwrap().stdout).trim() == "0"
    {
        let (user, group) = (id("-u"), id("-g"));
        if chown(folder, Some(user), Some(group)).is_err() {
            return false;
        }
        command.uid(user).gid(group);
    }
    command.current_dir(folder);
    true
}

fn postgresql_server() -> Option<Server> {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let mut initdb = Command::new(postgresql().join("initdb"));
    initdb
        .args(["--auth=trust", "--username=test", "--no-sync", "--pgdata"])
        .arg(&data);
    if !as_its_user(&mut initdb, folder.path()) {
        return None;
    }
    let output = initdb.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut command = Command::new(postgresql().join("postgres"));
    command
        .args(["-F", "-c", "listen_addresses=", "-k"])
        .arg(folder.path())
        .arg("-D")
        .arg(&data);
    as_its_user(&mut command, folder.path());
    let socket = folder.path().join(".s.PGSQL.5432");
    Some(Server::start(command, folder, &socket))
}

async fn test_cmd(con: &MultiplexedConnection, i: i32) -> RedisResult<()> {
    let mut con = con.clone();
    let key = format!("key{i}");
    let key2 = format!("key{i}_2");
    let value = format!("foo{i}");
    redis::cmd("SET")
        .arg(&key)
        .arg(&value)
        .exec_async(&mut con)
        .await?;
    redis::cmd("SET")
        .arg(&[&key2, "bar"])
        .exec_async(&mut con)
        .await?;
    redis::cmd("MGET")
        .arg(&[&key, &key2])
        .query_async(&mut con)
        .map(|result| {
            assert_eq!(Ok((value, b"bar".to_vec())), result);
            Ok(())
        })
        .await
}

#[test]
fn redis_answers_many_requests_of_one_connection() {
    run(|| async {
        let server = tokio::task::spawn_blocking(redis_server).await.unwrap();
        let address = format!("redis+unix://{}/redis", server.folder.path().display());
        let client = redis::Client::open(address).unwrap();
        let mut con = client.get_multiplexed_async_connection().await.unwrap();
        let commands = (0..100).map(|i| test_cmd(&con, i));
        let result = future::try_join_all(commands).await.unwrap();
        assert_eq!(100, result.len());
        let found: String = con.get("key7").await.unwrap();
        assert_eq!(found, "foo7");
    });
}

#[test]
fn sqlx_with_sqlite() {
    run(|| async {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new()
            .filename(folder.path().join("data"))
            .create_if_missing(true);
        let pool = SqlitePoolOptions::new()
            .max_connections(5)
            .connect_with(options)
            .await
            .unwrap();
        let row: (i64,) = sqlx::query_as("SELECT $1")
            .bind(150_i64)
            .fetch_one(&pool)
            .await
            .unwrap();
        assert_eq!(row.0, 150);
        sqlx::query("CREATE TABLE orders (number INTEGER)")
            .execute(&pool)
            .await
            .unwrap();
        let mut transaction = pool.begin().await.unwrap();
        for number in 0..10 {
            let insert = sqlx::query("INSERT INTO orders VALUES ($1)").bind(number);
            insert.execute(&mut *transaction).await.unwrap();
        }
        transaction.commit().await.unwrap();
        let sum: (i64,) = sqlx::query_as("SELECT SUM(number) FROM orders")
            .fetch_one(&pool)
            .await
            .unwrap();
        assert_eq!(sum.0, 45);
        pool.close().await;
    });
}

/// PostgreSQL needs another user than root. Where root may not change its user, these tests end at
/// once; the stage `privileged` runs them again.
mod with_privileges {
    use super::*;

    #[test]
    fn sqlx_with_postgresql() {
        run(|| async {
            let server = tokio::task::spawn_blocking(postgresql_server)
                .await
                .unwrap();
            let Some(server) = server else {
                return;
            };
            let options = PgConnectOptions::new_without_pgpass()
                .socket(server.folder.path())
                .username("test")
                .database("postgres");
            // The server listens before it accepts sessions.
            let pool = loop {
                let options = PgPoolOptions::new()
                    .max_connections(5)
                    .connect_with(options.clone());
                match options.await {
                    Ok(pool) => break pool,
                    Err(sqlx::Error::Database(error))
                        if error.code().as_deref() == Some("57P03") =>
                    {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                    Err(error) => panic!("{error}"),
                }
            };
            let row: (i64,) = sqlx::query_as("SELECT $1")
                .bind(150_i64)
                .fetch_one(&pool)
                .await
                .unwrap();
            assert_eq!(row.0, 150);
            let mut rows =
                sqlx::query_as::<_, (i32,)>("SELECT generate_series(1, 1000)").fetch(&pool);
            let mut sum = 0;
            while let Some(row) = rows.try_next().await.unwrap() {
                sum += row.0;
            }
            drop(rows);
            assert_eq!(sum, 500_500);
            pool.close().await;
        });
    }
}
