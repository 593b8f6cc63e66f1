//! [`Bucket`]: the files of a lake in a bucket of S3, or of a store with its protocol.
//!
//! Credentials, region and endpoint are those of the environment (`AWS_ACCESS_KEY_ID`,
//! `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, `AWS_REGION`, `AWS_ENDPOINT_URL`, roles of the
//! machine). They are in no error: [`Secrets`] takes out what a store repeats of them.

use super::objects::{BUCKETS, Found};
use crate::DatasetError;
use object_store::{
    Error, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey as Key},
    path::Path as Location,
};
use std::{
    fmt, io,
    path::PathBuf,
    sync::{Arc, OnceLock, mpsc},
    time::Duration,
};
use tokio::runtime::{Builder, Runtime};

/// How long a request is tried again.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
const RETRIES: usize = 4;

/// A prefix of a bucket.
#[derive(Clone)]
pub(crate) struct Bucket {
    store: Arc<AmazonS3>,
    /// The address without `s3://`.
    address: String,
    prefix: String,
    secrets: Secrets,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("address", &self.address).finish_non_exhaustive()
    }
}

/// What must not be in a message.
#[derive(Clone)]
struct Secrets(Vec<String>);

impl Secrets {
    fn of(builder: &AmazonS3Builder) -> Self {
        let keys = [Key::AccessKeyId, Key::SecretAccessKey, Key::Token];
        let values = keys.iter().filter_map(|key| builder.get_config_value(key));
        Self(values.filter(|value| !value.is_empty()).collect())
    }

    fn taken_out_of(&self, message: String) -> String {
        self.0.iter().fold(message, |message, secret| message.replace(secret, "***"))
    }
}

impl Bucket {
    /// Of `BUCKET/PREFIX`, or `BUCKET`. Makes no request.
    pub(crate) fn open(address: &str) -> Result<Self, DatasetError> {
        let invalid = |reason: &str| DatasetError::NotADataset {
            path: PathBuf::from(format!(
                "{BUCKETS}{}",
                address.split('@').next_back().unwrap_or("")
            )),
            reason: reason.to_owned(),
        };
        let (bucket, prefix) = address.split_once('/').unwrap_or((address, ""));
        if bucket.is_empty() {
            return Err(invalid("a bucket is missing: s3://BUCKET/PREFIX"));
        }
        if address.contains('@') {
            return Err(invalid("credentials belong into the environment, not into the address"));
        }
        let prefix = prefix.trim_matches('/');
        let builder =
            AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(RetryConfig {
                max_retries: RETRIES,
                retry_timeout: RETRY_TIMEOUT,
                ..RetryConfig::default()
            });
        let plain = [Key::Endpoint, Key::S3Endpoint].iter().any(|key| {
            builder.get_config_value(key).is_some_and(|endpoint| endpoint.starts_with("http://"))
        });
        let builder = if plain { builder.with_allow_http(true) } else { builder };
        let secrets = Secrets::of(&builder);
        // Another one may be there already, e.g. of the program that vitempo is a part of.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let store = builder.build().map_err(|e| invalid(&secrets.taken_out_of(e.to_string())))?;
        Location::parse(prefix).map_err(|e| invalid(&e.to_string()))?;
        Ok(Self {
            store: Arc::new(store),
            address: address.trim_end_matches('/').to_owned(),
            prefix: prefix.to_owned(),
            secrets,
        })
    }

    pub(crate) fn get(&self, name: &str) -> Result<Vec<u8>, DatasetError> {
        let (store, location) = (Arc::clone(&self.store), self.location(name)?);
        let got = wait(async move { store.get(&location).await?.bytes().await });
        got.map(|bytes| bytes.to_vec()).map_err(|error| self.failed("read", name, error))
    }

    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>) -> Result<(), DatasetError> {
        self.put_with(name, bytes, PutMode::Overwrite)
    }

    /// With `If-None-Match: *`, which the store decides at once for all writers.
    pub(crate) fn put_new(&self, name: &str, bytes: Vec<u8>) -> Result<(), DatasetError> {
        self.put_with(name, bytes, PutMode::Create)
    }

    fn put_with(&self, name: &str, bytes: Vec<u8>, mode: PutMode) -> Result<(), DatasetError> {
        let (store, location) = (Arc::clone(&self.store), self.location(name)?);
        let options = PutOptions { mode, ..PutOptions::default() };
        let payload = PutPayload::from(bytes);
        let put = wait(async move { store.put_opts(&location, payload, options).await });
        put.map(drop).map_err(|error| self.failed("write", name, error))
    }

    pub(crate) fn list(&self, below: &str) -> Result<Vec<Found>, DatasetError> {
        let mut found = Vec::new();
        let mut folders = vec![self.location(below)?];
        while let Some(folder) = folders.pop() {
            let store = Arc::clone(&self.store);
            let listed = wait(async move { store.list_with_delimiter(Some(&folder)).await });
            let listed = listed.map_err(|error| self.failed("list", below, error))?;
            folders.extend(listed.common_prefixes);
            found.extend(listed.objects.into_iter().map(|object| Found {
                name: self.name_of(object.location.as_ref()),
                changed: object.last_modified.into(),
            }));
        }
        Ok(found)
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), DatasetError> {
        let (store, location) = (Arc::clone(&self.store), self.location(name)?);
        let removed = wait(async move { store.delete(&location).await });
        removed.map_err(|error| self.failed("remove", name, error))
    }

    fn location(&self, name: &str) -> Result<Location, DatasetError> {
        let whole = format!("{}/{name}", self.prefix);
        Location::parse(whole.trim_matches('/')).map_err(|e| self.failed("name", name, e.into()))
    }

    fn name_of<'l>(&self, location: &'l str) -> String {
        let below: &'l str = location.strip_prefix(&self.prefix).unwrap_or(location);
        below.trim_start_matches('/').to_owned()
    }

    fn failed(&self, action: &'static str, name: &str, error: Error) -> DatasetError {
        let kind = match &error {
            Error::NotFound { .. } => io::ErrorKind::NotFound,
            Error::AlreadyExists { .. } | Error::Precondition { .. } => {
                io::ErrorKind::AlreadyExists
            }
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                io::ErrorKind::PermissionDenied
            }
            _ => io::ErrorKind::Other,
        };
        let path = PathBuf::from(format!("{BUCKETS}{}/{name}", self.address));
        let message = self.secrets.taken_out_of(error.to_string());
        DatasetError::Io { action, path, source: io::Error::new(kind, message) }
    }
}

/// Runs a request on a thread of its own, so that a caller may be inside of another runtime.
fn wait<T: Send + 'static>(
    request: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    let (done, result) = mpsc::sync_channel(1);
    runtime()?.spawn(async move { done.send(request.await) });
    result.recv().unwrap_or_else(|gone| Err(generic(gone)))
}

fn runtime() -> Result<&'static Runtime, Error> {
    static RUNTIME: OnceLock<io::Result<Runtime>> = OnceLock::new();
    let made =
        RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(1).enable_all().build());
    made.as_ref().map_err(|error| generic(error.to_string()))
}

fn generic(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: "S3", source: source.into() }
}
