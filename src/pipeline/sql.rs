//! The ordinary connection, made when it is needed and made again when it is gone.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::backoff::Backoff;
use super::error::{PipelineError, is_transient_sql};
use crate::lsn::Lsn;
use crate::relation::{CatalogFacts, CatalogKeys, PgType, Questions, Relation, catalog};
use crate::replication::{ConnectError, PostgresSettings, SqlClient, connect_sql};

/// One ordinary connection, shared by whoever has a question.
pub(super) struct Sql {
    settings: PostgresSettings,
    client: Mutex<Option<Arc<SqlClient>>>,
}

impl Sql {
    pub(super) fn new(settings: PostgresSettings) -> Self {
        Sql {
            settings,
            client: Mutex::new(None),
        }
    }

    pub(super) async fn client(&self) -> Result<Arc<SqlClient>, ConnectError> {
        let mut slot = self.client.lock().await;
        if let Some(client) = slot.as_ref().filter(|client| !client.is_closed()) {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(connect_sql(&self.settings).await?);
        *slot = Some(Arc::clone(&client));
        Ok(client)
    }

    /// What these types are. Asked for in the middle of the stream, so a lost connection is made again for ever: to give up
    /// would cost the whole session.
    pub(super) async fn types(&self, oids: &[u32]) -> Result<Vec<Arc<PgType>>, PipelineError> {
        self.patiently(async |client| catalog::types(client, oids).await).await
    }

    /// How the keys of this relation stand.
    pub(super) async fn keys(&self, relation: u32) -> Result<CatalogKeys, PipelineError> {
        self.patiently(async |client| catalog::keys(client, relation).await)
            .await
    }

    /// What the stream does not say of this relation's columns.
    pub(super) async fn facts(&self, relation: &Relation) -> Result<CatalogFacts, PipelineError> {
        let questions = Questions::of(relation);
        self.patiently(async |client| catalog::facts(client, relation.oid, &questions).await)
            .await
    }

    /// Which of these relations there are no more, and where the log ends.
    pub(super) async fn gone(&self, relations: &[u32]) -> Result<(Vec<u32>, Option<Lsn>), PipelineError> {
        self.patiently(async |client| catalog::gone(client, relations).await)
            .await
    }

    async fn patiently<T>(
        &self,
        ask: impl AsyncFn(&tokio_postgres::Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, PipelineError> {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
        loop {
            let error = match self.client().await {
                Ok(client) => match ask(&client).await {
                    Ok(answer) => return Ok(answer),
                    Err(error) if !is_transient_sql(&error) => return Err(error.into()),
                    Err(error) => PipelineError::from(error),
                },
                Err(error) if !error.is_transient() => return Err(error.into()),
                Err(error) => error.into(),
            };
            tracing::warn!(error = error.chain(), "the catalog does not answer; trying again");
            tokio::time::sleep(backoff.next()).await;
        }
    }
}
