//! The thin shell around a [`Client`]: connections, streams and clocks. All decisions are the client's.
//!
//! [`run`] does what the client wants and tells it what came of it, until its commands end. One task per connection reads and
//! writes; all of them end with it. How a server is reached, and with what encryption, is the business of a [`Connect`].

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame};
use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use super::{Action, Cache, Client, Event, Frames, LinkId, Offer, Variant, frame};
use crate::resource::TypeUrl;

#[cfg(test)]
mod tests;

/// A connection on which nothing is heard is asked after this time.
pub const PING: Duration = Duration::from_secs(10);

/// It is dropped if it does not answer within this time.
pub const PONG: Duration = Duration::from_secs(10);

/// Bytes that a server may send before they are taken: as many as our own server takes of a client.
const WINDOW: u32 = 512 << 10;

/// Responses that wait for the client. Each may be as large as [`super::LARGEST_RESPONSE`]: a connection is not read on before
/// its last response was taken.
const WAITING: usize = 1;

/// Messages that a server has not taken: one per kind and one per response that is answered. A server that leaves more unread is as
/// good as gone.
const UNSENT: usize = 256;

/// A byte stream of any kind.
pub trait Io: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Io for T {}

/// The connection to a server once it is there.
pub type Connecting = Pin<Box<dyn Future<Output = io::Result<Box<dyn Io>>> + Send>>;

/// How servers are reached.
pub trait Connect: Send + Sync {
    /// Connects to one of [`super::Config::servers`]; with encryption, HTTP/2 has to be agreed on (`h2` in ALPN).
    fn connect(&self, server: &str) -> Connecting;
}

/// Without encryption: `host:port`, or `unix:` and a path.
pub struct Plain;

impl Connect for Plain {
    fn connect(&self, server: &str) -> Connecting {
        let server = server.to_owned();
        Box::pin(async move {
            if let Some(path) = server.strip_prefix("unix:") {
                return Ok(Box::new(UnixStream::connect(path).await?) as Box<dyn Io>);
            }
            let stream = TcpStream::connect(&server).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    }
}

/// Whoever uses a client. Both are called between two messages and must not wait.
pub trait User: Send {
    /// Says whether a new version is good, or why not. The reason is sent to the server: it must not repeat a secret.
    ///
    /// # Errors
    /// Why it is refused.
    fn judge(&mut self, offer: &Offer<'_>) -> Result<(), String>;

    /// Something happened; the cache holds what is in force.
    fn told(&mut self, cache: &Cache, event: Event);
}

/// What a running client can be told.
pub enum Command {
    /// See [`Client::subscribe`].
    Subscribe(TypeUrl, Vec<Arc<str>>),
    /// See [`Client::unsubscribe`].
    Unsubscribe(TypeUrl, Vec<Arc<str>>),
    /// See [`Client::save`]: with secrets or not, and where the bytes go.
    Save(bool, oneshot::Sender<Bytes>),
}

/// What a connection's task tells.
enum Input {
    Connected,
    Message(Bytes),
    Ended(String),
}

/// The task of one connection.
struct Line {
    messages: mpsc::Sender<Bytes>,
    task: AbortHandle,
}

/// Runs a client until its commands end.
pub async fn run(
    mut client: Client,
    servers: &dyn Connect,
    user: &mut dyn User,
    mut commands: mpsc::Receiver<Command>,
) {
    let epoch = Instant::now();
    let (into, mut inputs) = mpsc::channel(WAITING);
    let mut lines = BTreeMap::new();
    let mut tasks = JoinSet::new();
    loop {
        let now = epoch.elapsed();
        while let Some(action) = client.next_action(now) {
            match action {
                Action::Connect { link, server } => {
                    let name = client.config().servers.get(server).cloned().unwrap_or_default();
                    let (messages, taken) = mpsc::channel(UNSENT);
                    let connecting = servers.connect(&name);
                    let task = tasks.spawn(talk(link, connecting, client.config().variant, taken, into.clone()));
                    lines.insert(link, Line { messages, task });
                }
                Action::Send { link, message } => {
                    let full = lines.get(&link).is_none_or(|line: &Line| line.messages.try_send(message).is_err());
                    if full && let Some(line) = lines.remove(&link) {
                        line.task.abort();
                        client.ended(link, "the server does not take what is sent", now);
                    }
                }
                Action::Close { link } => drop(lines.remove(&link).map(|line| line.task.abort())),
            }
        }
        while let Some(event) = client.next_event() {
            user.told(client.cache(), event);
        }
        let due = client.next_deadline().map(|at| epoch + at);
        tokio::select! {
            command = commands.recv() => match command {
                None => return,
                Some(Command::Subscribe(type_url, names)) => client.subscribe(&type_url, names),
                Some(Command::Unsubscribe(type_url, names)) => client.unsubscribe(&type_url, names.iter().map(|name| &**name)),
                Some(Command::Save(secrets, to)) => drop(to.send(client.save(secrets))),
            },
            Some((link, input)) = inputs.recv() => match input {
                Input::Connected => client.connected(link, epoch.elapsed()),
                Input::Message(message) => {
                    client.received(link, message, epoch.elapsed(), &mut |offer| user.judge(offer));
                }
                Input::Ended(reason) => {
                    lines.remove(&link);
                    client.ended(link, &reason, epoch.elapsed());
                }
            },
            () = tokio::time::sleep_until(due.unwrap_or(epoch)), if due.is_some() => client.pass_time(epoch.elapsed()),
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
}

/// One connection with its stream, from its beginning to its end.
async fn talk(
    link: LinkId,
    connecting: Connecting,
    variant: Variant,
    messages: mpsc::Receiver<Bytes>,
    into: mpsc::Sender<(LinkId, Input)>,
) {
    let reason = match stream(link, connecting, variant, messages, &into).await {
        Ok(reason) => reason,
        Err(error) => error.to_string(),
    };
    // nobody listens any more: then nobody needs to know
    let _ = into.send((link, Input::Ended(reason))).await;
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn stream(
    link: LinkId,
    connecting: Connecting,
    variant: Variant,
    messages: mpsc::Receiver<Bytes>,
    into: &mpsc::Sender<(LinkId, Input)>,
) -> Result<String, Failure> {
    let tasks = Owned::new();
    let mut builder = http2::Builder::new(tasks.0.clone());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(2 * WINDOW);
    let (mut sender, connection) = builder.handshake(TokioIo::new(connecting.await?)).await?;
    tasks.0.execute(async move { drop(connection.await) });
    let request = http::Request::post(format!("http://xds{}", variant.path()))
        .header(http::header::CONTENT_TYPE, "application/grpc")
        .header(http::header::TE, "trailers")
        .body(Messages(messages))?;
    let response = sender.send_request(request);
    into.send((link, Input::Connected)).await?;
    let (head, mut body) = response.await?.into_parts();
    if head.status != http::StatusCode::OK {
        return Ok(format!("the server answered {}", head.status));
    }
    if let Some(status) = status(&head.headers) {
        return Ok(status);
    }
    let mut frames = Frames::default();
    while let Some(part) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        match part?.into_data() {
            Ok(data) => frames.push(&data),
            Err(part) => return Ok(part.trailers_ref().and_then(status).unwrap_or_default()),
        }
        while let Some(message) = frames.next_message()? {
            into.send((link, Input::Message(message))).await?;
        }
    }
    Ok("the server ended the stream".into())
}

/// How a call ended, as the server says.
fn status(headers: &HeaderMap) -> Option<String> {
    let text = |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let code = text("grpc-status")?;
    Some(format!("the server ended the stream: {} (code {code})", text("grpc-message").unwrap_or_default()))
}

/// The body of the request: messages as they come.
struct Messages(mpsc::Receiver<Bytes>);

impl Body for Messages {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|message| message.map(|message| Ok(Frame::data(frame(&message)))))
    }
}

/// The tasks that the HTTP/2 library spawns for one connection; none once it has ended.
#[derive(Clone)]
struct Tasks(Arc<Mutex<Option<JoinSet<()>>>>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, future: F) {
        // another thread may be about to spawn while the connection ends: that future is dropped, and not under the lock
        let mut late = Some(future);
        if let Some(tasks) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner)
            && let Some(future) = late.take()
        {
            tasks.spawn(future);
        }
        drop(late);
    }
}

/// They end with the connection's task. (Each holds the set of them all, so that dropping it would not be enough.)
struct Owned(Tasks);

impl Owned {
    fn new() -> Self {
        Self(Tasks(Arc::new(Mutex::new(Some(JoinSet::new())))))
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let tasks = self.0.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(tasks);
    }
}
