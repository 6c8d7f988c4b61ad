//! `walferry run`: logs, HTTP and signals around the pipeline.

use std::sync::Arc;

use indicatif::MultiProgress;

use super::progress::Teller;
use super::{Exit, logs, output, signals};
use crate::config::Loaded;
use crate::lsn::Lsn;
use crate::pipeline::{self, PipelineError};
use crate::telemetry::control;
use crate::telemetry::http::{self, HttpError, HttpServer};
use crate::telemetry::metrics::MetricsError;
use crate::telemetry::{Metrics, REVISION, Status, VERSION};

/// Streams until told to stop.
pub(super) async fn run(loaded: Loaded, accept_gap: Option<Lsn>) -> Exit {
    let screen = match logs::start_above_bars(&loaded) {
        Ok(screen) => screen,
        Err(exit) => return exit,
    };
    match stream(&loaded, accept_gap, screen).await {
        Ok(()) => Exit::Stopped,
        Err(error) => {
            // The last line says why, and what to do.
            match error.hint() {
                Some(hint) => tracing::error!("{}. {hint}", output::chain(&error)),
                None => tracing::error!("{}", output::chain(&error)),
            }
            Exit::Failed
        }
    }
}

/// What ends `run` for good.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("signals cannot be taken over")]
    Signals(#[source] std::io::Error),
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    #[error("metrics and health cannot be served")]
    Http(#[from] HttpError),
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
}

impl RunError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Signals(_) | Self::Metrics(_) => None,
            Self::Http(error) => Some(error.hint().to_owned()),
            Self::Pipeline(error) => error.hint(),
        }
    }
}

async fn stream(loaded: &Loaded, accept_gap: Option<Lsn>, screen: Option<MultiProgress>) -> Result<(), RunError> {
    let config = &loaded.config;
    let shutdown = signals::drain_on_signals().map_err(RunError::Signals)?;
    let status = Arc::new(Status::new(
        &config.name,
        &config.replication.slot,
        &config.replication.publication,
    ));
    status.set_in_flight_limit(config.delivery.max_in_flight);
    let metrics = Metrics::new()?;
    let (control, commands) = control::channel();
    // Lives until the pipeline has ended, so that a drain can be watched.
    let server: HttpServer = http::serve(config.http.listen, Arc::clone(&status), metrics.clone(), control).await?;
    let file = loaded
        .path
        .as_ref()
        .map_or("the environment alone".into(), |path| path.display().to_string());
    tracing::info!(
        name = %config.name,
        version = VERSION,
        revision = REVISION,
        configuration = %file,
        http = %server.address(),
        "walferry starts"
    );
    let teller = Teller::start(Arc::clone(&status), screen);
    let ended = pipeline::run(config, accept_gap, &status, &metrics, commands, shutdown).await;
    teller.end().await;
    Ok(ended?)
}
