//! Requests without pause, from inside the lab, each answer looked at: over connections that are kept and over fresh ones.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use serde_json::Value;
use tests::client::Answer;
use tests::prober::{Allowed, Prober};

use crate::inside::enter;

/// Clients that keep their connections, and clients that do not.
const KEPT: usize = 4;
const FRESH: usize = 2;

/// Between two requests of a client: on two cores Envoy and the backends shall have time to spare.
const PAUSE: Duration = Duration::from_millis(4);

/// What no answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Does something while the clients ask, and says how often they did. Fails if any answer was wrong.
pub(crate) fn under<T>(lab: &Path, address: SocketAddr, allowed: &[Allowed<'_>], deed: impl FnOnce() -> T) -> T {
    let prober = Prober::default();
    let began = Instant::now();
    let done = std::thread::scope(|scope| {
        for number in 0..KEPT + FRESH {
            let prober = &prober;
            scope.spawn(move || {
                enter(lab);
                let mut client = Client { address, keeps: number < KEPT, kept: None, began };
                prober.run(|path| client.get(path), allowed);
            });
        }
        let _asking = prober.until_dropped();
        deed()
    });
    let (asked, wrong) = prober.told();
    println!("{asked} requests in {:.1} s", began.elapsed().as_secs_f64());
    assert!(wrong.is_empty(), "{} of {asked} answers were wrong: {wrong:#?}", wrong.values().sum::<u64>());
    assert!(asked > 100, "only {asked} requests");
    done
}

struct Client {
    address: SocketAddr,
    keeps: bool,
    kept: Option<Connection>,
    began: Instant,
}

struct Connection {
    stream: BufReader<TcpStream>,
    asked: u64,
}

impl Client {
    /// The name of the backend that answers.
    fn get(&mut self, path: &str) -> anyhow::Result<Answer> {
        std::thread::sleep(PAUSE);
        let mut connection = match self.kept.take() {
            Some(connection) => connection,
            None => Connection::open(self.address).inspect_err(|error| self.tell(path, error))?,
        };
        let asked = connection.asked;
        let answer = connection.get(path, !self.keeps).with_context(|| if asked > 0 { "kept" } else { "fresh" });
        let (answer, last) = answer.inspect_err(|error| self.tell(path, error))?;
        if answer.status != 200 {
            self.tell(path, &anyhow::anyhow!("{} {}", answer.status, answer.body));
        }
        self.kept = (self.keeps && !last).then_some(connection);
        Ok(answer)
    }

    /// When it was: the logs of the lab's programs have times too.
    fn tell(&self, path: &str, error: &anyhow::Error) {
        println!("{:.3} s: {path}: {error:#}", self.began.elapsed().as_secs_f64());
    }
}

impl Connection {
    fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).context("connecting")?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream), asked: 0 })
    }

    /// The answer, and whether the server means to close the connection.
    fn get(&mut self, path: &str, last: bool) -> anyhow::Result<(Answer, bool)> {
        self.asked += 1;
        let more = if last { "connection: close\r\n" } else { "" };
        let request = format!("GET {path} HTTP/1.1\r\nhost: shop.example\r\n{more}\r\n");
        self.stream.get_mut().write_all(request.as_bytes()).context("writing")?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let read = self.stream.read_line(&mut head).context("reading")?;
            anyhow::ensure!(read > 0, "the connection ended");
        }
        let head = head.to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).context("an answer without a status")?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.context("an answer without a length")?.parse()?];
        self.stream.read_exact(&mut body).context("reading the body")?;
        Ok((Answer { status, body: backend(&body) }, last || head.contains("connection: close")))
    }
}

/// Backends say which Pod they are: the name of its Deployment, `cart` of `cart-5d9c7c6f7b-x2x9z`; or what else was said.
fn backend(body: &[u8]) -> String {
    let pod = serde_json::from_slice(body).ok().and_then(|said: Value| Some(said.get("pod")?.as_str()?.to_owned()));
    let name = pod.as_deref().and_then(|pod| pod.split('-').next());
    name.map_or_else(|| String::from_utf8_lossy(body).into_owned(), str::to_owned)
}
