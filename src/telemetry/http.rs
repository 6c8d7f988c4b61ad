//! `/`, `/metrics`, `/health/live`, `/health/ready`, `/status`.
