//! `[delivery]`.

use super::Judge;
use crate::config::settings::Delivery;

impl Judge {
    pub(super) fn delivery(&self) -> Delivery {
        Delivery {
            max_in_flight: self.size("delivery.max_in_flight"),
        }
    }
}
