//! An API server for tests: real HTTP on loopback, the protocol of lists and watches, and whatever a real one rarely does, on demand.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};

use api::Kind;
use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use crate::kubernetes::connect;
use crate::kubernetes::target::Resource;

pub(super) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The server. Dropping it ends it.
pub(super) struct Mock {
    state: Arc<Mutex<State>>,
    /// Counts whatever watches have to look at.
    wake: watch::Sender<u64>,
    address: String,
    task: tokio::task::JoinHandle<()>,
}

/// What it has, and how it misbehaves.
#[derive(Default)]
pub(super) struct State {
    pub(super) version: u64,
    /// What happened up to here is no longer known.
    floor: u64,
    resources: BTreeMap<String, Shelf>,
    log: Vec<Logged>,
    /// Lists that are given in pages, each with its version.
    snapshots: Vec<(u64, Vec<Value>)>,
    /// Watches that began before this was counted up are broken off.
    breaks: u64,
    /// Requests, as path and query, in the order of their coming.
    pub(super) requests: Vec<String>,
    /// Watches that are open.
    pub(super) open: usize,
    pub(super) faults: Faults,
}

/// How it misbehaves.
#[derive(Default, Clone)]
pub(super) struct Faults {
    /// Lists only come in pages.
    pub(super) no_streaming: bool,
    /// Objects of a page, if fewer than asked for.
    pub(super) page: Option<usize>,
    /// Every request is answered with 503.
    pub(super) down: bool,
    /// Requests are forbidden where one of these stands in the path, the field selector behind a space, and a `$`.
    pub(super) forbidden: Vec<String>,
    /// Watches say nothing.
    pub(super) silent: bool,
    /// So many further pages of lists are refused with 410.
    pub(super) gone_pages: usize,
    /// So many lists that are watches break off after their first object.
    pub(super) broken_lists: usize,
    /// Every event comes twice, and the one before it after it again.
    pub(super) stutter: bool,
}

#[derive(Default)]
struct Shelf {
    versions: Vec<String>,
    objects: BTreeMap<(String, String), Value>,
}

#[derive(Clone)]
struct Logged {
    version: u64,
    /// The full name of the resource; empty: for all watches.
    resource: String,
    event: &'static str,
    object: Value,
}

/// The full name of a kind's resource.
pub(super) fn of(kind: Kind) -> String {
    Resource::Kind(kind, "").full_name()
}

impl Mock {
    /// One with all kinds, each in all versions that we read.
    pub(super) async fn start() -> Self {
        let state = Arc::new(Mutex::new(State::default()));
        let (wake, woken) = watch::channel(0);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let (shared, woken) = (Arc::clone(&state), woken);
        let app = Router::new().fallback(move |uri: Uri| answer(Arc::clone(&shared), woken.clone(), uri));
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let mock = Self { state, wake, address, task };
        mock.lock()
            .resources
            .insert(DEFINITIONS.to_owned(), Shelf { versions: vec!["v1".to_owned()], ..Shelf::default() });
        for kind in crate::kubernetes::kinds() {
            mock.install(kind, kind.versions());
        }
        mock
    }

    pub(super) fn client(&self) -> kube::Client {
        connect::client(kube::Config::new(self.address.parse().unwrap())).unwrap()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Changes how it misbehaves.
    pub(super) fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.lock().faults);
        self.woken();
    }

    fn woken(&self) {
        self.wake.send_modify(|count| *count += 1);
    }

    /// From now on the kind is served in these versions, and has a definition.
    pub(super) fn install(&self, kind: Kind, versions: &[&str]) {
        self.lock().resources.entry(of(kind)).or_default().versions =
            versions.iter().map(|&one| one.to_owned()).collect();
        self.put_at(
            DEFINITIONS,
            json!({ "metadata": { "name": of(kind), "labels": { "versions": versions.join(" ") } } }),
        );
    }

    /// The kind is gone with all its objects. Watches of it end.
    pub(super) fn uninstall(&self, kind: Kind) {
        let mut state = self.lock();
        state.resources.remove(&of(kind));
        state.breaks += 1;
        drop(state);
        self.delete_at(DEFINITIONS, "", &of(kind));
    }

    /// Writes an object; gives its version.
    pub(super) fn put(&self, kind: Kind, object: Value) -> u64 {
        self.put_at(&of(kind), object)
    }

    fn put_at(&self, resource: &str, mut object: Value) -> u64 {
        let mut state = self.lock();
        state.version += 1;
        let version = state.version;
        let key = (text(&object, "namespace"), text(&object, "name"));
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("resourceVersion".to_owned(), version.to_string().into());
        }
        let shelf = state.resources.entry(resource.to_owned()).or_default();
        let event = if shelf.objects.insert(key, object.clone()).is_some() { "MODIFIED" } else { "ADDED" };
        state.log.push(Logged { version, resource: resource.to_owned(), event, object });
        drop(state);
        self.woken();
        version
    }

    /// Removes an object, if it is there.
    pub(super) fn delete(&self, kind: Kind, namespace: &str, name: &str) {
        self.delete_at(&of(kind), namespace, name);
    }

    fn delete_at(&self, resource: &str, namespace: &str, name: &str) {
        let mut state = self.lock();
        let key = (namespace.to_owned(), name.to_owned());
        let Some(mut object) = state.resources.get_mut(resource).and_then(|shelf| shelf.objects.remove(&key)) else {
            return;
        };
        state.version += 1;
        let version = state.version;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        state.log.push(Logged { version, resource: resource.to_owned(), event: "DELETED", object });
        drop(state);
        self.woken();
    }

    /// Sends an event to the watches of a kind without any object behind it.
    pub(super) fn say(&self, kind: Kind, event: &'static str, object: Value) {
        self.log(of(kind), event, object);
    }

    /// Sends a line as it is to the watches of a kind that are open.
    pub(super) fn say_line(&self, kind: Kind, line: &str) {
        self.log(of(kind), "LINE", line.into());
    }

    /// Tells all watches how far they are.
    pub(super) fn bookmark(&self) {
        let version = self.lock().version;
        self.log(String::new(), "BOOKMARK", json!({ "metadata": { "resourceVersion": version.to_string() } }));
    }

    fn log(&self, resource: String, event: &'static str, object: Value) {
        let mut state = self.lock();
        state.version += 1;
        let version = state.version;
        state.log.push(Logged { version, resource, event, object });
        drop(state);
        self.woken();
    }

    /// Breaks off every watch.
    pub(super) fn break_off(&self) {
        self.lock().breaks += 1;
        self.woken();
    }

    /// Forgets what happened: watches that are open are told so, and so is whoever comes with an old version.
    pub(super) fn compact(&self) {
        let mut state = self.lock();
        state.floor = state.version;
        state.log.clear();
        drop(state);
        self.log(String::new(), "ERROR", json!({ "kind": "Status", "code": 410, "reason": "Expired" }));
        self.break_off();
    }

    /// All requests so far, but those for kinds.
    pub(super) fn requests(&self) -> Vec<String> {
        self.lock().requests.iter().filter(|request| request.contains('?')).cloned().collect()
    }

    /// The last of them, for whoever looks for what went wrong.
    pub(super) fn last_requests(&self) -> Vec<String> {
        let requests = self.requests();
        requests.into_iter().rev().take(40).rev().collect()
    }

    /// Requests in whose path and query a text stands.
    pub(super) fn asked(&self, part: &str) -> usize {
        self.lock().requests.iter().filter(|request| request.contains(part)).count()
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.task.abort();
        self.break_off();
    }
}

fn text(object: &Value, field: &str) -> String {
    object["metadata"][field].as_str().unwrap_or_default().to_owned()
}

fn refused(code: u16, message: &str) -> Response {
    let status = json!({ "kind": "Status", "status": "Failure", "code": code, "message": message });
    (StatusCode::from_u16(code).unwrap(), status.to_string()).into_response()
}

/// A request for objects.
#[derive(Clone)]
struct Asked {
    resource: String,
    api_version: String,
    namespace: Option<String>,
    query: BTreeMap<String, String>,
}

impl Asked {
    fn has(&self, object: &Value) -> bool {
        let name = self.query.get("fieldSelector").and_then(|selector| selector.strip_prefix("metadata.name="));
        self.namespace.as_ref().is_none_or(|namespace| *namespace == text(object, "namespace"))
            && name.is_none_or(|name| name == text(object, "name"))
    }

    fn shown(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), self.api_version.clone().into());
        }
        object
    }
}

async fn answer(state: Arc<Mutex<State>>, woken: watch::Receiver<u64>, uri: Uri) -> Result<Response, Infallible> {
    let query: BTreeMap<String, String> = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.replace("%3D", "=")))
        .collect();
    let mut locked = state.lock().unwrap();
    let selector = query.get("fieldSelector").cloned().unwrap_or_default();
    locked.requests.push(uri.to_string());
    if locked.faults.down {
        return Ok(refused(503, "restarting"));
    }
    let place = format!("{} {selector}$", uri.path());
    if locked.faults.forbidden.iter().any(|part| place.contains(part)) {
        return Ok(refused(403, "not for you"));
    }
    let parts: Vec<&str> = uri.path().trim_matches('/').split('/').collect();
    let (group, version, rest) = match parts.as_slice() {
        ["api", version, rest @ ..] => ("", *version, rest),
        ["apis", group, version, rest @ ..] => (*group, *version, rest),
        _ => return Ok(refused(404, "no such path")),
    };
    let (namespace, plural) = match rest {
        [] => return Ok(locked.resources_of(group, version)),
        ["namespaces", namespace, plural] => (Some((*namespace).to_owned()), *plural),
        [plural] => (None, *plural),
        _ => return Ok(refused(404, "no such path")),
    };
    let resource = if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") };
    if !locked.resources.get(&resource).is_some_and(|shelf| shelf.versions.iter().any(|served| served == version)) {
        return Ok(refused(404, "no such kind"));
    }
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let asked = Asked { resource, api_version, namespace, query };
    if !asked.query.contains_key("watch") {
        return Ok(locked.page(&asked));
    }
    if asked.query.contains_key("sendInitialEvents") && locked.faults.no_streaming {
        return Ok(refused(422, "sendInitialEvents is forbidden"));
    }
    drop(locked);
    let (sender, receiver) = mpsc::channel(1000);
    tokio::spawn(watched(state, woken, asked, sender));
    Ok(Body::from_stream(ReceiverStream::new(receiver)).into_response())
}

impl State {
    fn resources_of(&self, group: &str, version: &str) -> Response {
        let named = self.resources.iter().filter(|(_, shelf)| shelf.versions.iter().any(|served| served == version));
        let plurals: Vec<Value> = named
            .filter_map(|(name, _)| match name.split_once('.') {
                Some((plural, of)) => (of == group).then_some(plural),
                None => group.is_empty().then_some(name.as_str()),
            })
            .map(|plural| json!({ "name": plural }))
            .collect();
        match plurals.is_empty() {
            true => refused(404, "no such group"),
            false => json!({ "resources": plurals }).to_string().into_response(),
        }
    }

    fn matching(&self, asked: &Asked) -> Vec<Value> {
        let objects = self.resources.get(&asked.resource).into_iter().flat_map(|shelf| shelf.objects.values());
        objects.filter(|object| asked.has(object)).map(|object| asked.shown(object)).collect()
    }

    /// A page of the list as it was when its first page was asked for.
    fn page(&mut self, asked: &Asked) -> Response {
        let token = asked.query.get("continue").and_then(|token| token.split_once('-'));
        let (offset, snapshot) = match token {
            Some(_) if self.faults.gone_pages > 0 => {
                self.faults.gone_pages -= 1;
                return refused(410, "the continue parameter is too old");
            }
            Some((offset, snapshot)) => (offset.parse().unwrap(), snapshot.parse().unwrap()),
            None => {
                self.snapshots.push((self.version, self.matching(asked)));
                (0, self.snapshots.len() - 1)
            }
        };
        let (version, all) = &self.snapshots[snapshot];
        let limit = asked.query.get("limit").map_or(usize::MAX, |limit| limit.parse().unwrap());
        let items: Vec<&Value> = all.iter().skip(offset).take(self.faults.page.unwrap_or(limit).min(limit)).collect();
        let end = offset + items.len();
        let next = if end < all.len() { format!("{end}-{snapshot}") } else { String::new() };
        let metadata = json!({ "resourceVersion": version.to_string(), "continue": next });
        json!({ "kind": "List", "metadata": metadata, "items": items }).to_string().into_response()
    }

    fn take_broken_list(&mut self) -> bool {
        let broken = self.faults.broken_lists > 0;
        self.faults.broken_lists = self.faults.broken_lists.saturating_sub(1);
        broken
    }
}

type Lines = mpsc::Sender<Result<String, std::io::Error>>;

fn line(event: &str, object: &Value) -> String {
    // As servers write it: serde_json keeps the order here.
    format!("{}\n", json!({ "type": event, "object": object }))
}

async fn watched(state: Arc<Mutex<State>>, mut woken: watch::Receiver<u64>, asked: Asked, lines: Lines) {
    state.lock().unwrap().open += 1;
    if serve(&state, &mut woken, &asked, &lines).await.is_some() {
        // Broken off in the middle of a line.
        let _ = lines.send(Ok("{\"type\":\"ADD".to_owned())).await;
        let _ = lines.send(Err(std::io::Error::other("broken off"))).await;
    }
    state.lock().unwrap().open -= 1;
}

/// Serves one watch until it is broken off; `None`: it ends, or nobody listens.
async fn serve(state: &Mutex<State>, woken: &mut watch::Receiver<u64>, asked: &Asked, lines: &Lines) -> Option<()> {
    let (breaks, mut position, first) = {
        let mut state = state.lock().unwrap();
        let mut first = Vec::new();
        let mut position = asked.query.get("resourceVersion").and_then(|from| from.parse().ok()).unwrap_or(0);
        if asked.query.contains_key("sendInitialEvents") {
            first.extend(state.matching(asked).iter().map(|object| line("ADDED", object)));
            position = state.version;
            if state.take_broken_list() {
                first.truncate(1);
                first.push(String::new());
            } else {
                let annotations = json!({ "k8s.io/initial-events-end": "true" });
                let metadata = json!({ "resourceVersion": position.to_string(), "annotations": annotations });
                first.push(line("BOOKMARK", &json!({ "metadata": metadata })));
            }
        } else if position < state.floor {
            // A real server ends such a watch, and does not break it off.
            let text = line("ERROR", &json!({ "kind": "Status", "code": 410, "message": "too old" }));
            let _ = lines.try_send(Ok(text));
            return None;
        }
        (state.breaks, position, first)
    };
    for text in first {
        if text.is_empty() {
            return Some(());
        }
        lines.send(Ok(text)).await.ok()?;
    }
    loop {
        woken.borrow_and_update();
        let (texts, broken) = {
            let state = state.lock().unwrap();
            let mut texts = Vec::new();
            if !state.faults.silent {
                let news: Vec<&Logged> = state.log.iter().filter(|logged| logged.version > position).collect();
                texts = told(&news, asked, state.faults.stutter);
                position = state.version;
            }
            (texts, state.faults.down || state.breaks != breaks)
        };
        for text in texts {
            lines.send(Ok(text)).await.ok()?;
        }
        if broken {
            return Some(());
        }
        tokio::select! {
            changed = woken.changed() => changed.ok()?,
            () = lines.closed() => return None,
        }
    }
}

fn told(news: &[&Logged], asked: &Asked, stutter: bool) -> Vec<String> {
    let is_meant = |logged: &&&Logged| {
        let all = logged.resource.is_empty() || logged.event == "LINE" && logged.resource == asked.resource;
        all || logged.resource == asked.resource && asked.has(&logged.object)
    };
    let mut texts: Vec<String> = Vec::new();
    let mut before: Option<String> = None;
    for logged in news.iter().filter(is_meant) {
        if let (Some(text), "LINE") = (logged.object.as_str(), logged.event) {
            texts.push(format!("{text}\n"));
            continue;
        }
        let text = line(logged.event, &asked.shown(&logged.object));
        if stutter && logged.event != "ERROR" {
            texts.push(text.clone());
            texts.extend(before.replace(text.clone()));
        }
        texts.push(text);
    }
    texts
}
