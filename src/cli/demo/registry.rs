//! A schema registry in the process: as much of Confluent's API as the pipeline and the reader use, in memory.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::DemoError;

#[derive(Default)]
struct Schemas {
    /// Ids count from 1 in the order of registration.
    by_id: Vec<String>,
    subjects: HashMap<String, Vec<u64>>,
}

type Shared = Arc<Mutex<Schemas>>;

/// Serves on a free port of the loopback until the runtime ends.
pub(super) async fn serve() -> Result<SocketAddr, DemoError> {
    let app = Router::new()
        .route("/subjects", get(subjects))
        .route("/subjects/{subject}/versions", post(register))
        .route("/subjects/{subject}/versions/latest", get(latest))
        .route("/config/{subject}", get(level))
        .route("/schemas/ids/{id}", get(schema))
        .with_state(Shared::default());
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(DemoError::Listen)?;
    let address = listener.local_addr().map_err(DemoError::Listen)?;
    tokio::spawn(async move { axum::serve(listener, app).await });
    Ok(address)
}

fn locked(schemas: &Shared) -> std::sync::MutexGuard<'_, Schemas> {
    schemas.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn subjects(State(schemas): State<Shared>) -> Json<Vec<String>> {
    let mut subjects: Vec<String> = locked(&schemas).subjects.keys().cloned().collect();
    subjects.sort();
    Json(subjects)
}

async fn register(
    State(schemas): State<Shared>,
    Path(subject): Path<String>,
    body: String,
) -> Result<Json<Value>, (StatusCode, Json<Value>)> {
    let schema = serde_json::from_str::<Value>(&body)
        .ok()
        .and_then(|request| Some(request.get("schema")?.as_str()?.to_owned()))
        .filter(|schema| apache_avro::Schema::parse_str(schema).is_ok())
        .ok_or_else(|| {
            (
                StatusCode::UNPROCESSABLE_ENTITY,
                Json(json!({"error_code": 42201, "message": "Invalid schema"})),
            )
        })?;
    let mut schemas = locked(&schemas);
    let known = schemas.by_id.iter().position(|known| *known == schema);
    let index = known.unwrap_or_else(|| {
        schemas.by_id.push(schema);
        schemas.by_id.len() - 1
    });
    let id = u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1);
    let versions = schemas.subjects.entry(subject).or_default();
    if !versions.contains(&id) {
        versions.push(id);
    }
    Ok(Json(json!({ "id": id })))
}

async fn latest(
    State(schemas): State<Shared>,
    Path(subject): Path<String>,
) -> Result<Json<Value>, (StatusCode, Json<Value>)> {
    let schemas = locked(&schemas);
    let versions = schemas.subjects.get(&subject);
    let id = versions.and_then(|versions| versions.last()).copied();
    let index = id.and_then(|id| usize::try_from(id.checked_sub(1)?).ok());
    let schema = index.and_then(|index| schemas.by_id.get(index)).ok_or_else(|| {
        (
            StatusCode::NOT_FOUND,
            Json(json!({"error_code": 40401, "message": "Subject not found"})),
        )
    })?;
    Ok(Json(
        json!({ "subject": subject, "version": versions.map(Vec::len), "id": id, "schema": schema }),
    ))
}

/// Nothing is compared here.
async fn level() -> Json<Value> {
    Json(json!({ "compatibilityLevel": "NONE" }))
}

async fn schema(State(schemas): State<Shared>, Path(id): Path<usize>) -> Result<Json<Value>, StatusCode> {
    let schemas = locked(&schemas);
    let schema = id
        .checked_sub(1)
        .and_then(|index| schemas.by_id.get(index))
        .ok_or(StatusCode::NOT_FOUND)?;
    Ok(Json(json!({ "schema": schema })))
}
