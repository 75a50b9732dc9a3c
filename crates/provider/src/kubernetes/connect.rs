//! [`connect`]: from a kubeconfig, or from within a pod, to a client.

use std::path::PathBuf;
use std::time::Duration;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::kubernetes::Error;

/// A server that is there answers a connection within a second; one that is not costs this.
const CONNECT: Duration = Duration::from_secs(5);

/// Which API server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connection {
    /// A kubeconfig; without one `KUBECONFIG`, then `~/.kube/config`, then the ServiceAccount of this pod.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig, else its current one.
    pub context: Option<String>,
}

/// Makes a client, with whatever proves who we are: certificates, tokens that are read again when they are renewed, or a plugin that is run.
/// Nothing is asked yet: a server that is not there is found out later.
///
/// # Errors
///
/// There is no usable configuration.
pub async fn connect(connection: &Connection) -> Result<Client, Error> {
    let Connection { kubeconfig, context } = connection;
    let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
    let config = match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(|error| unusable(&error))?;
            Config::from_custom_kubeconfig(file, &options).await.map_err(|error| unusable(&error))
        }
        None if context.is_some() => Config::from_kubeconfig(&options).await.map_err(|error| unusable(&error)),
        None => Config::infer().await.map_err(|error| unusable(&error)),
    };
    client(config?)
}

/// Answers come when they come, watches for minutes: who asks bounds them. What fails is asked for again by who asked.
pub(super) fn client(mut config: Config) -> Result<Client, Error> {
    config.connect_timeout = Some(CONNECT);
    config.read_timeout = None;
    config.default_retry = false;
    Client::try_from(config).map_err(|error| Error::Client(error.to_string()))
}

fn unusable(error: &dyn std::error::Error) -> Error {
    Error::Config(super::call::causes(error))
}
