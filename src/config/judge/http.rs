//! `[http]`.

use std::net::SocketAddr;

use super::Judge;
use crate::config::settings::Http;

impl Judge {
    pub(super) fn http(&mut self) -> Http {
        let listen = self.text("http.listen").parse().unwrap_or_else(|_| {
            self.fault(
                "http.listen",
                "is not an address and a port",
                "such as \"127.0.0.1:8080\" or \"[::]:8080\"",
            );
            SocketAddr::from(([127, 0, 0, 1], 8080))
        });
        Http { listen }
    }
}
