//! A librdkafka producer, and the thread that hears of its deliveries.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::producer::{Producer as _, PurgeConfig};

use super::context::Context;
use super::properties;
use super::shape::Shape;
use super::{KafkaError, KafkaSettings, Native};

/// How long one turn of the polling thread lasts; events are handled as they come, counters go out once a turn.
const TURN: Duration = Duration::from_millis(100);
/// Time for the broker threads to hand back what was purged. They do it at once, unless they wait for name resolution.
const PURGE_LIMIT: Duration = Duration::from_secs(5);
/// While no broker answers, how often one is asked, since an idle producer would not notice that it is back.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Dropped, it purges what is queued and fails those tickets, on its own thread.
pub(super) struct Running {
    pub(super) native: Arc<Native>,
    pub(super) shape: Shape,
    stop: Arc<AtomicBool>,
    poller: Option<JoinHandle<()>>,
}

impl Running {
    pub(super) fn start(settings: &KafkaSettings, shape: Shape, context: Context) -> Result<Self, KafkaError> {
        let config = properties::producer_config(settings, shape)?;
        let native = Native::from_config_and_context(&config, context).map_err(KafkaError::from_client)?;
        let native = Arc::new(native);
        let stop = Arc::new(AtomicBool::new(false));
        let poller = std::thread::Builder::new().name("kafka-deliveries".to_owned());
        let poller = poller.spawn({
            let (native, stop) = (native.clone(), stop.clone());
            move || poll(&native, &stop)
        });
        Ok(Running {
            native,
            shape,
            stop,
            poller: Some(poller.map_err(|source| KafkaError::Thread { source })?),
        })
    }

    pub(super) fn context(&self) -> &Context {
        self.native.client().context()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(poller) = self.poller.take() {
            // It cannot panic but by a fault of an observer, which has been reported by then.
            let _ = poller.join();
        }
    }
}

pub(super) fn fatal_reason(native: &Native) -> Option<String> {
    let (code, reason) = native.client().fatal_error()?;
    Some(format!("{reason} ({code:?})"))
}

fn poll(native: &Native, stop: &AtomicBool) {
    let context = native.client().context();
    let mut asked = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        native.poll(TURN);
        context.report();
        // The error event does not tell a fatal error from a passing one.
        if let Some(reason) = fatal_reason(native) {
            context.fatal(&reason);
        }
        if context.brokers_are_down() && asked.elapsed() >= PROBE_INTERVAL {
            if native.client().fetch_metadata(None, Duration::from_millis(500)).is_ok() {
                context.brokers_answer();
            }
            asked = Instant::now();
        }
    }
    native.purge(PurgeConfig::default().queue().inflight());
    let purged = Instant::now();
    while context.in_flight.now().records > 0 && purged.elapsed() < PURGE_LIMIT {
        native.poll(Duration::from_millis(10));
    }
    context.report();
}
