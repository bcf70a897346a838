//! Requests per second of the HTTP server with a service that echoes, at 64 keep-alive connections; and what it costs to
//! make a client and call a loopback peer once. `cargo bench -p muretai-transports`
#![allow(clippy::unwrap_used, clippy::print_stdout)]
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use muretai_transports::{
    ClientTimeouts, Document, Incoming, Outcome, Service, Stop, Transport,
    guard::Policy,
    http::{HttpTransport, ServerLimits},
};

const CONNECTIONS: usize = 64;
const CLIENT_THREADS: usize = 1;
/// The size of a usual signed message.
const BODY_BYTES: usize = 900;

struct Echo;

#[async_trait]
impl Service for Echo {
    async fn call(&self, request: Incoming) -> Outcome {
        Outcome { status: 200, body: request.body }
    }

    async fn document(&self, _path: &str) -> Option<Document> {
        None
    }
}

fn main() {
    // `cargo test --benches` only wants to see that it runs.
    let measured = if std::env::args().any(|arg| arg == "--bench") { 5 } else { 0 };
    let (address, stop, server) = start_server();
    first_call(address);
    throughput(address, Duration::from_secs(measured), 1);
    throughput(address, Duration::from_secs(measured), 16);
    stop.stop();
    server.join().unwrap();
}

fn start_server() -> (SocketAddr, Stop, thread::JoinHandle<()>) {
    let stop = Stop::new();
    let (sender, receiver) = std::sync::mpsc::channel();
    let server = thread::spawn({
        let stop = stop.clone();
        move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                // One more than the load has: the first call's connection may not have gone yet.
                let limits = ServerLimits { max_connections: CONNECTIONS + 1, ..ServerLimits::default() };
                let transport = HttpTransport::client(ClientTimeouts::default())
                    .bind("127.0.0.1:0".parse().unwrap(), "", limits)
                    .await
                    .unwrap();
                sender.send(transport.local_addr().unwrap()).unwrap();
                let before = thread_cpu();
                transport.listen(Arc::new(Echo), stop).await.unwrap();
                if let (Some(before), Some(after)) = (before, thread_cpu()) {
                    println!("server thread: {:.2} s of CPU in all", (after - before).as_secs_f64());
                }
            });
        }
    });
    (receiver.recv().unwrap(), stop, server)
}

/// What one `muretai send` pays: the client is made, and one message goes out and comes back.
fn first_call(address: SocketAddr) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let started = Instant::now();
    runtime.block_on(async {
        let client = HttpTransport::client(ClientTimeouts::default());
        let body = Bytes::from_static(b"{}");
        let url = format!("http://{address}/");
        client.post(&url, body.clone(), &[], Policy::Owner).await.unwrap();
        println!("first call, client included: {:?}", started.elapsed());
        let started = Instant::now();
        client.post(&url, body, &[], Policy::Owner).await.unwrap();
        println!("second call: {:?}", started.elapsed());
    });
}

/// Plain blocking sockets as load: each thread writes to all of its connections, then reads from all.
fn throughput(address: SocketAddr, time: Duration, pipelined: usize) {
    let (done, is_over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let before = server_cpu();
    let started = Instant::now();
    let clients: Vec<_> = (0..CLIENT_THREADS)
        .map(|_| {
            let (done, is_over) = (Arc::clone(&done), Arc::clone(&is_over));
            thread::spawn(move || load(address, pipelined, &done, &is_over))
        })
        .collect();
    thread::sleep(time);
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
    let (done, elapsed) = (done.load(Ordering::Relaxed), started.elapsed());
    println!(
        "{CONNECTIONS} connections, {pipelined} at a time: {:.0} requests/s, {:.2} us of CPU each in this process, load included",
        done as f64 / elapsed.as_secs_f64(),
        (server_cpu() - before).as_secs_f64() * 1e6 / done as f64,
    );
}

fn load(address: SocketAddr, pipelined: usize, done: &AtomicU64, is_over: &AtomicBool) {
    let mut streams: Vec<_> = (0..CONNECTIONS / CLIENT_THREADS).map(|_| TcpStream::connect(address).unwrap()).collect();
    let body = "x".repeat(BODY_BYTES);
    let request =
        format!("POST / HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nContent-Length: {BODY_BYTES}\r\n\r\n{body}")
            .repeat(pipelined);
    let mut scratch = vec![0; 65_536];
    let mut answer_len = None;
    loop {
        for stream in &mut streams {
            stream.write_all(request.as_bytes()).unwrap();
        }
        for stream in &mut streams {
            let expected = *answer_len.get_or_insert_with(|| first_answer_len(stream, &mut scratch) * pipelined);
            let mut have = 0;
            while have < expected {
                let len = stream.read(&mut scratch).unwrap();
                assert_ne!(len, 0, "the server closed a connection");
                have += len;
            }
        }
        done.fetch_add((streams.len() * pipelined) as u64, Ordering::Relaxed);
        if is_over.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// All answers are equally long; the first one is looked at without taking it.
fn first_answer_len(stream: &TcpStream, scratch: &mut [u8]) -> usize {
    loop {
        let len = stream.peek(scratch).unwrap();
        if let Some(at) = scratch[..len].windows(4).position(|window| window == b"\r\n\r\n") {
            return at + 4 + BODY_BYTES;
        }
    }
}

/// CPU time of this process, where the system tells.
fn server_cpu() -> Duration {
    cpu_of("/proc/self/stat").unwrap_or_default()
}

fn thread_cpu() -> Option<Duration> {
    cpu_of("/proc/thread-self/stat")
}

fn cpu_of(path: &str) -> Option<Duration> {
    let stat = std::fs::read_to_string(path).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 10))
}
