//! One address in front of several processes, as a load balancer of an operator would be.
use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
};

/// Passes each connection on to the next process that takes it; ends when dropped.
pub struct Balancer {
    /// Where it listens.
    pub addr: SocketAddr,
    behind: Arc<Mutex<Vec<SocketAddr>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Default for Balancer {
    fn default() -> Self {
        Balancer::new()
    }
}

impl Balancer {
    /// Listens; nothing is behind it yet.
    pub fn new() -> Balancer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let behind = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (behind, stop) = (Arc::clone(&behind), Arc::clone(&stop));
            move || accept(&listener, &behind, &stop)
        });
        Balancer { addr, behind, stop, thread: Some(thread) }
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What is behind it from now on.
    pub fn pass_to(&self, processes: &[SocketAddr]) {
        *self.behind.lock().unwrap() = processes.to_vec();
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        _ = TcpStream::connect(self.addr);
        if let Some(thread) = self.thread.take() {
            _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, behind: &Mutex<Vec<SocketAddr>>, stop: &AtomicBool) {
    let next = AtomicUsize::new(0);
    for client in listener.incoming() {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok(client) = client else { continue };
        let processes = behind.lock().unwrap().clone();
        let first = next.fetch_add(1, Ordering::Relaxed);
        let turn = (0..processes.len()).map(|n| processes[(first + n) % processes.len()]);
        // Without one, the client is hung up on.
        if let Some(server) = turn.filter_map(|addr| TcpStream::connect(addr).ok()).next() {
            pass(&client, &server);
            pass(&server, &client);
        }
    }
}

/// Passes on what comes from one side until that ends. The thread ends with the connection.
fn pass(from: &TcpStream, to: &TcpStream) {
    let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { return };
    _ = from.set_nodelay(true);
    std::thread::spawn(move || {
        let mut buffer = [0; 16_384];
        while let Ok(read) = from.read(&mut buffer) {
            if read == 0 || to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        _ = to.shutdown(Shutdown::Both);
        _ = from.shutdown(Shutdown::Both);
    });
}
