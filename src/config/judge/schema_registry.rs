//! `[schema_registry]`.

use super::Judge;
use crate::config::registry_url::{self, RegistryUrl};
use crate::config::secret::Secret;
use crate::config::settings::{OnIncompatible, SchemaRegistry, Subject};

impl Judge {
    pub(super) fn schema_registry(&mut self) -> SchemaRegistry {
        let written = self.texts("schema_registry.url");
        if written.is_empty() {
            self.fault(
                "schema_registry.url",
                "is empty",
                "give a URL, such as \"http://127.0.0.1:8081\"",
            );
        }
        let mut urls: Vec<RegistryUrl> = Vec::new();
        for text in &written {
            match registry_url::parse(text) {
                Ok(url) => urls.push(url),
                Err(problem) => {
                    self.fault(
                        "schema_registry.url",
                        problem,
                        "such as \"https://registry.example:8081\"",
                    );
                }
            }
        }
        let mut username = Some(self.text("schema_registry.username")).filter(|name| !name.is_empty());
        let mut password = self.secret("schema_registry.password", "schema_registry.password_file");
        let bearer_token = self.secret("schema_registry.bearer_token", "schema_registry.bearer_token_file");
        let in_urls: Vec<&(String, Option<Secret>)> = urls.iter().filter_map(|url| url.credentials.as_ref()).collect();
        let first = in_urls.first().map(|credentials| (*credentials).clone());
        let differ = in_urls.iter().any(|credentials| Some(*credentials) != first.as_ref());
        if differ || (!in_urls.is_empty() && in_urls.len() != urls.len()) {
            self.fault(
                "schema_registry.url",
                "has not the same credentials in every URL",
                "give them once, in schema_registry.username and schema_registry.password",
            );
        }
        if let Some((url_username, url_password)) = first {
            if username.is_some() || password.is_some() || bearer_token.is_some() {
                self.fault(
                    "schema_registry.url",
                    "holds credentials, and there are others in schema_registry.username, password or bearer_token",
                    "keep one of the two",
                );
            }
            username = Some(url_username);
            password = url_password;
        } else if username.is_some() && bearer_token.is_some() {
            self.fault(
                "schema_registry.username",
                "is set, and so is schema_registry.bearer_token",
                "keep the username for basic authentication or the token for bearer authentication",
            );
        } else if username.is_none() && password.is_some() {
            self.fault(
                "schema_registry.username",
                "is missing, but there is a password",
                "give both, or neither",
            );
        }
        let register = self.bool("schema_registry.register");
        let on_incompatible = match self.text("schema_registry.on_incompatible").as_str() {
            "register" => OnIncompatible::Register,
            _ => OnIncompatible::Stop,
        };
        if !register && on_incompatible == OnIncompatible::Register {
            self.fault(
                "schema_registry.on_incompatible",
                "is register, but schema_registry.register is false",
                "set it to stop, or register to true",
            );
        }
        SchemaRegistry {
            urls: urls.into_iter().map(|url| url.base).collect(),
            username,
            password,
            bearer_token,
            ssl_ca: self.path("schema_registry.ssl_ca"),
            subject: match self.text("schema_registry.subject").as_str() {
                "record-name" => Subject::RecordName,
                "topic-record-name" => Subject::TopicRecordName,
                _ => Subject::TopicName,
            },
            register,
            on_incompatible,
        }
    }
}
